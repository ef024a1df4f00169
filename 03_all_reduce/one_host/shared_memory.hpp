// What this file adds: an all-reduce that takes about as long as one memcpy, for the ranks of
// one host. It sends no messages: every rank adds up its slice of all ranks' tensors, in rank
// order, and writes the result to all ranks' memory.
// Builds on: host_memory, host_barrier; the ring's chunk_range and accumulate.
// Look at: reduce_in_place. It reads and writes every number once and needs two barriers.
//
// All ranks can access memory from allocate(), so such memory is reduced in place. NCCL calls
// such buffers registered. Other memory is copied through a shared-memory segment, block by
// block, which costs an extra copy in each direction.
#pragma once

#include "03_all_reduce/one_host/host_barrier.hpp"
#include "03_all_reduce/one_host/host_memory.hpp"
#include "03_all_reduce/one_host/shared_memory_kernels.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace dist {

class SharedMemoryAllReduce {
 public:
  // Called on all ranks of `comm`, which must be on one host.
  explicit SharedMemoryAllReduce(const Communicator& comm,
                                 std::chrono::milliseconds limit = std::chrono::seconds(120));

  // Called on all ranks with the same size. Returns memory that can be reduced in place, as a
  // whole or in part. Each rank may free its memory at any time, even if this object is gone.
  std::shared_ptr<std::byte> allocate(const Communicator& comm, std::size_t bytes);

  // Called on all ranks with the same length and op. Either all ranks pass the same part of the
  // same allocation, or all pass ordinary memory. Afterwards all ranks hold the same bits,
  // because each element is added up by one rank, or by all ranks in the same order.
  template <MpiScalar T>
  void all_reduce(std::span<T> data, ReduceOp op);

  // The two halves of an all-reduce, in place, for registered memory: reduce_scatter leaves the
  // result of chunk r on rank r only, and all_gather copies chunk r of rank r to all ranks. The
  // data has `parts` chunks (chunk_range), at most one per rank. Called on all ranks with the
  // same part of the same allocation and the same number of parts.
  template <MpiScalar T>
  void reduce_scatter(std::span<T> data, ReduceOp op, int parts);
  template <MpiScalar T>
  void all_gather(std::span<T> data, int parts);

  bool is_registered(const void* data, std::size_t bytes) {
    return find(data, bytes).owner != nullptr;
  }

  // Up to this size, data goes through the small slots, with one barrier instead of two.
  static constexpr std::size_t kSmallBytes = 8 * 1024;

 private:
  struct Registered {
    HostMemory memory;
    std::uint64_t number;
  };
  // A position in an allocation, the same on every rank; or ordinary memory, without owner.
  struct Position {
    std::shared_ptr<Registered> owner;
    std::size_t offset = 0;
    std::byte* at(int rank) const { return owner->memory.of(rank) + offset; }
  };
  Position find(const void* data, std::size_t bytes);

  template <MpiScalar T>
  static HostBarrier::Call describe(std::span<T> data, const Position& position,
                                    std::uint32_t op) {
    constexpr std::uint32_t kType =
        4 * sizeof(T) + 2 * std::floating_point<T> + std::is_signed_v<T>;
    return {data.size_bytes(), position.owner ? position.owner->number + position.offset : 0,
            op, kType};
  }

  template <MpiScalar T>
  void reduce_small(std::span<T> data, ReduceOp op, const HostBarrier::Call& call);
  enum class Results { here, everywhere };
  template <MpiScalar T>
  void reduce_in_place(const Position& position, ChunkRange mine, Results results, ReduceOp op,
                       const HostBarrier::Call& call);
  template <MpiScalar T>
  void reduce_through_segment(std::span<T> data, ReduceOp op, const HostBarrier::Call& call);

  // The halves' calls must differ from all-reduces (HostBarrier::Call::op).
  static constexpr std::uint32_t kReduceScatter = 16, kAllGather = 32;

  int rank_, size_;
  HostBarrier barrier_;
  HostMemory segment_;
  std::uint64_t small_calls_ = 0;
  std::uint64_t next_number_ = 1;
  // The key is the start of an allocation. Freed ones stay in the map until they are looked up.
  std::map<const std::byte*, std::weak_ptr<Registered>> registered_;
  // One pointer per rank. These are members so that calls need not allocate them.
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
};

template <MpiScalar T>
void SharedMemoryAllReduce::all_reduce(std::span<T> data, ReduceOp op) {
  check_op<T>(op);
  if (size_ == 1) return;
  const Position position = find(data.data(), data.size_bytes());
  const HostBarrier::Call call = describe(data, position, static_cast<std::uint32_t>(op));
  if (data.size_bytes() <= kSmallBytes) {
    reduce_small(data, op, call);
  } else if (position.owner) {
    const ChunkRange mine = shared_memory::slice<T>(data.size(), size_, rank_);
    reduce_in_place<T>(position, mine, Results::everywhere, op, call);
  } else {
    reduce_through_segment(data, op, call);
  }
}

// Every rank publishes its numbers and adds up all ranks', which is redundant, but needs only
// one barrier. Calls use the two slots alternately: before a rank writes to one again, it has
// met all ranks in the call in between, so all have left the call that last used the slot.
template <MpiScalar T>
void SharedMemoryAllReduce::reduce_small(std::span<T> data, ReduceOp op,
                                         const HostBarrier::Call& call) {
  const std::size_t slot = small_calls_++ % 2 * kSmallBytes;
  std::ranges::copy(std::as_bytes(data), segment_.of(rank_) + slot);
  barrier_.meet(call);
  for (int rank = 0; rank < size_; ++rank) {
    sources_[static_cast<std::size_t>(rank)] = segment_.of(rank) + slot;
  }
  std::byte* const target = reinterpret_cast<std::byte*>(data.data());
  shared_memory::reduce<T>(op, sources_, {&target, 1}, data.size());
}

// [9] Between the two barriers, a rank touches only its own part, in the memory of all ranks.
template <MpiScalar T>
void SharedMemoryAllReduce::reduce_in_place(const Position& position, ChunkRange mine,
                                            Results results, ReduceOp op,
                                            const HostBarrier::Call& call) {
  for (int rank = 0; rank < size_; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    sources_[r] = targets_[r] = position.at(rank) + mine.begin * sizeof(T);
  }
  std::span<std::byte* const> targets(targets_.data(), sources_.size());
  if (results == Results::here) targets = targets.subspan(static_cast<std::size_t>(rank_), 1);
  barrier_.meet(call);  // all numbers have been written
  shared_memory::reduce<T>(op, sources_, targets, mine.count);
  barrier_.wait();  // all results have been written, and my numbers have been read
}

template <MpiScalar T>
void SharedMemoryAllReduce::reduce_scatter(std::span<T> data, ReduceOp op, int parts) {
  check_op<T>(op);
  if (size_ == 1) return;
  const Position position = find(data.data(), data.size_bytes());
  const ChunkRange mine =
      rank_ < parts ? chunk_range(data.size(), parts, rank_) : ChunkRange{0, 0};
  const HostBarrier::Call call =
      describe(data, position, kReduceScatter + static_cast<std::uint32_t>(op));
  reduce_in_place<T>(position, mine, Results::here, op, call);
}

template <MpiScalar T>
void SharedMemoryAllReduce::all_gather(std::span<T> data, int parts) {
  const Position position = find(data.data(), data.size_bytes());
  barrier_.meet(describe(data, position, kAllGather));
  for (int rank = 0; rank < parts; ++rank) {
    if (rank == rank_) continue;
    const ChunkRange theirs = chunk_range(data.size(), parts, rank);
    std::memcpy(data.data() + theirs.begin, position.at(rank) + theirs.begin * sizeof(T),
                theirs.count * sizeof(T));
  }
  barrier_.wait();  // all ranks have read my chunk
}

// The tensor passes through the segment in blocks, each in three stages separated by barriers:
//
//   show:    the others' slices of my numbers -> my segment, `in`
//   reduce:  my slice, from my numbers and the others' segments -> my numbers and my segment,
//            `out`
//   fetch:   the others' slices of the result, from their segments -> my numbers
//
// In round k every rank shows block k, reduces block k - 1 and fetches block k - 2, so one
// barrier per round is enough. `in` and `out` each have room for two blocks, one even and one
// odd. Block k overwrites block k - 2, which all ranks have reduced in round k - 1.
template <MpiScalar T>
void SharedMemoryAllReduce::reduce_through_segment(std::span<T> data, ReduceOp op,
                                                   const HostBarrier::Call& call) {
  using namespace shared_memory;
  constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
  const std::size_t blocks = (data.size() + kBlock - 1) / kBlock;
  const auto block = [&](std::size_t k) {
    return data.subspan(k * kBlock, std::min(kBlock, data.size() - k * kBlock));
  };
  const auto in = [&](std::size_t k, int rank) {
    std::byte* const slot = segment_.of(rank) + 2 * kSmallBytes + k % 2 * kBlockBytes;
    return std::span(reinterpret_cast<T*>(slot), block(k).size());
  };
  const auto out = [&](std::size_t k, int rank) {
    return std::span(in(k, rank).data() + 2 * kBlock, block(k).size());
  };
  const auto slice_of = [&](std::span<T> whole, int rank) {
    const ChunkRange range = slice<T>(whole.size(), size_, rank);
    return whole.subspan(range.begin, range.count);
  };

  for (std::size_t k = 0; k < blocks + 2; ++k) {
    for (int rank = 0; rank < size_ && k < blocks; ++rank) {
      if (rank == rank_) continue;
      std::ranges::copy(slice_of(block(k), rank), slice_of(in(k, rank_), rank).begin());
    }
    if (k >= 1 && k - 1 < blocks) {
      const std::span<T> mine = slice_of(block(k - 1), rank_);
      for (int rank = 0; rank < size_; ++rank) {
        sources_[static_cast<std::size_t>(rank)] = reinterpret_cast<const std::byte*>(
            rank == rank_ ? mine.data() : slice_of(in(k - 1, rank), rank_).data());
      }
      targets_[0] = reinterpret_cast<std::byte*>(mine.data());
      targets_[1] = reinterpret_cast<std::byte*>(slice_of(out(k - 1, rank_), rank_).data());
      reduce<T>(op, sources_, std::span(targets_).first(2), mine.size());
    }
    for (int rank = 0; rank < size_ && k >= 2; ++rank) {
      if (rank == rank_) continue;
      std::ranges::copy(slice_of(out(k - 2, rank), rank), slice_of(block(k - 2), rank).begin());
    }
    if (k == 0) {
      barrier_.meet(call);
    } else if (k <= blocks) {
      barrier_.wait();
    }
  }
}

}  // namespace dist
