// The inner loops of shared_memory.hpp, which add up many sources and write to many targets,
// and the choice of how they write.
#pragma once

#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace dist {
namespace shared_memory {

constexpr std::size_t kCacheLine = 64;
// The size of a tile, which is added up in the first-level cache and then written out.
constexpr std::size_t kTileBytes = 4096;
// The size of a segment's block. Two `in` and two `out` blocks fit into a second-level cache of
// 1 MiB.
constexpr std::size_t kBlockBytes = 128 * 1024;

// Rank r's slice of `count` elements. It consists of whole cache lines, so that no two ranks
// write to the same line.
template <class T>
ChunkRange slice(std::size_t count, int size, int rank) {
  constexpr std::size_t kPerLine = kCacheLine / sizeof(T);
  const ChunkRange lines = chunk_range((count + kPerLine - 1) / kPerLine, size, rank);
  const std::size_t begin = std::min(count, lines.begin * kPerLine);
  const std::size_t end = std::min(count, (lines.begin + lines.count) * kPerLine);
  return {begin, end - begin};
}

// Sets `out` to a (op) b, the result that accumulate(op, a, b) would leave in a.
template <MpiScalar T>
void combine(ReduceOp op, T* out, const T* a, const T* b, std::size_t count) {
  if (op == ReduceOp::max) {
    for (std::size_t i = 0; i < count; ++i) out[i] = b[i] > a[i] || b[i] != b[i] ? b[i] : a[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(a[i] + b[i]);
  }
}

// A memcpy that bypasses the caches. Its stores are not ordered, so call stream_fence() before
// telling other ranks that the bytes have been written.
inline void stream_copy(void* to, const void* from, std::size_t bytes) {
#if defined(__AVX512F__)
  using Wide = __m512i;
  const auto store = [](Wide* p, Wide value) { _mm512_stream_si512(p, value); };
#elif defined(__SSE2__)
  using Wide = __m128i;
  const auto store = [](Wide* p, Wide value) { _mm_stream_si128(p, value); };
#endif
#if defined(__SSE2__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Wide) == 0) {
    const std::size_t wide = bytes / sizeof(Wide);
    auto* const target = static_cast<Wide*>(to);
    for (std::size_t i = 0; i < wide; ++i) {
      Wide value;
      std::memcpy(&value, static_cast<const Wide*>(from) + i, sizeof value);
      store(target + i, value);
    }
    const std::size_t done = wide * sizeof(Wide);
    std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done,
                bytes - done);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Reduces `sources`, in their order, into all `targets`; each has `count` elements of T. A
// target may be one of the sources, but must not partially overlap a source.
template <MpiScalar T>
void reduce(ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, std::size_t count, bool past_caches) {
  constexpr std::size_t kTile = kTileBytes / sizeof(T);
  alignas(kCacheLine) std::array<T, kTile> tile;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t n = std::min(kTile, count - begin);
    const auto source = [&](std::size_t s) {
      return reinterpret_cast<const T*>(sources[s]) + begin;
    };
    if (sources.size() == 1) {
      std::copy_n(source(0), n, tile.data());
    } else {
      combine(op, tile.data(), source(0), source(1), n);
    }
    for (std::size_t s = 2; s < sources.size(); ++s) {
      combine<T>(op, tile.data(), tile.data(), source(s), n);
    }
    finish(op, std::span(tile).first(n), static_cast<int>(sources.size()));
    for (std::byte* const target : targets) {
      T* const to = reinterpret_cast<T*>(target) + begin;
      if (past_caches) {
        stream_copy(to, tile.data(), n * sizeof(T));
      } else {
        std::memcpy(to, tile.data(), n * sizeof(T));
      }
    }
  }
  if (past_caches) stream_fence();
}

}  // namespace shared_memory

// Whether a large result should bypass the caches. An ordinary store first reads the line into
// a cache. That is a waste if the result does not fit there, and a gain if it does, because the
// next call reads it. Which of the two holds depends on the size of the last cache and on how
// many ranks share it. So each rank tries both ways and keeps the faster one. The choice
// changes no bits, so ranks need not agree.
template <class Clock = std::chrono::steady_clock>
class StoreChoice {
 public:
  // Calls operation(past_caches), which writes `bytes` bytes.
  template <class Operation>
  void run(std::size_t bytes, Operation operation) {
    if (bytes < kSmallest) return operation(false);
    Trials& trials = trials_[static_cast<std::size_t>(std::bit_width(bytes))];
    if (trials.calls == kCalls) return operation(trials.per_byte[1] < trials.per_byte[0]);
    // Each way runs twice in a row, because a call is slow or fast depending on where the
    // previous one has left its result. Only the second of the two counts.
    const std::size_t call = trials.calls++;
    const std::size_t way = call / 2 % 2;
    const auto begin = Clock::now();
    operation(way == 1);
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (call % 2 == 0) return;
    trials.per_byte[way] =
        std::min(trials.per_byte[way], took.count() / static_cast<double>(bytes));
  }

 private:
  // Results of this size or less fit into any processor's second-level cache.
  static constexpr std::size_t kSmallest = 128 * 1024;
  static constexpr std::size_t kCalls = 12;  // three times each way, twice in a row

  struct Trials {
    std::size_t calls = 0;
    std::array<double, 2> per_byte{std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity()};
  };
  std::map<std::size_t, Trials> trials_;  // by the number of bits of the size
};

}  // namespace dist
