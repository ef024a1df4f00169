// Each operation consists of a struct that defines what one index reads and writes, and a
// function that runs the struct over all indices.
//
// This file is compiled by nvcc in a CUDA build and by the C++ compiler otherwise. Neither
// compiler may contract a * b + c into one operation that rounds once; only std::fma does that.
#include "05_ddp_training/model/kernels.hpp"

#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>
#include <cstring>

namespace dist {
namespace {

struct AddTo {
  const float* x;
  float* into;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { into[i] += x[i]; }
};

struct Scale {
  float factor;
  float* x;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { x[i] *= factor; }
};

struct Round {
  const float* x;
  Bf16* rounded;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { rounded[i] = to_bf16(x[i]); }
};

// Neighbouring indices read neighbouring numbers, which a GPU reads together. The constants are
// those of the 64-bit FNV-1a hash.
struct HashBits {
  std::size_t count;
  const float* x;
  std::size_t threads;
  std::uint64_t* hashes;
  DIST_HOST_DEVICE void operator()(std::size_t t) const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (std::size_t i = t; i < count; i += threads) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, x + i, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3U;
    }
    hashes[t] = hash;
  }
};

struct CountHits {
  std::size_t classes;
  const float* logits;
  const std::int32_t* targets;
  float* hits;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* row = logits + r * classes;
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes; ++c) {
      best = row[c] <= row[best] || std::isnan(row[best]) ? best : c;
    }
    hits[r] = best == static_cast<std::size_t>(targets[r]) ? 1.0F : 0.0F;
  }
};

}  // namespace

std::string why_no_kernel() {
  return detail::why_no_kernel<Scale>();
}

void add_to(const Stream& stream, std::size_t count, const float* x, float* into) {
  parallel_for(stream, count, AddTo{x, into});
}

void scale(const Stream& stream, std::size_t count, float factor, float* x) {
  parallel_for(stream, count, Scale{factor, x});
}

void round_to_bf16(const Stream& stream, std::size_t count, const float* x, Bf16* rounded) {
  parallel_for(stream, count, Round{x, rounded});
}

void hash_bits(const Stream& stream, std::size_t count, const float* x, std::size_t threads,
               std::uint64_t* hashes) {
  parallel_for(stream, threads, HashBits{count, x, threads, hashes});
}

void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits) {
  parallel_for(stream, rows, CountHits{classes, logits, targets, hits});
}

}  // namespace dist
