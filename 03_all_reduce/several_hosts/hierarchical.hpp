// What this file adds: an all-reduce for ranks on several hosts. The ranks of each host first
// add up their tensors in shared memory. Only that sum crosses the network, and only once.
// Builds on: shared_memory's two halves; the algorithms that send messages.
// Look at: reduce(), which has three steps. The middle one is lesson 3's all-reduce again,
// among hosts instead of ranks.
//
//   host A: ranks 0, 1      host B: ranks 2, 3
//   [0: half 0] ----------- [2: half 0]      Inside its host, rank 0 finishes the sum of half 0
//   [1: half 1] ----------- [3: half 1]      and rank 1 that of half 1. Each rank then talks to
//                                            one rank per host: the one with the same half.
//
// A ring over all ranks sends 2 (N - 1)/N n bytes over each link between neighbours, and so
// over every cable. With H hosts, this algorithm sends 2 (H - 1)/H n bytes from each host.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/one_host/shared_memory.hpp"
#include "common/communicator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace dist {

class HierarchicalAllReduce {
 public:
  // Called on all ranks of `comm`. `host` has the ranks on this rank's host, which share
  // `memory`; `staging` is kStagingBytes of it. `memory` must outlive this object.
  HierarchicalAllReduce(const Communicator& comm, const Communicator& host,
                        SharedMemoryAllReduce& memory, std::shared_ptr<std::byte> staging)
      : ranks_(comm.size()),
        place_(host.rank()),
        parts_(std::ranges::min(comm.all_gather(host.size()))),
        memory_(memory),
        staging_(std::move(staging)),
        across_(comm.split(std::min(place_, parts_), comm.rank())) {}

  // Ordinary memory passes through registered memory in blocks of this size. A block is so long
  // that the latency of the messages between hosts hardly matters.
  static constexpr std::size_t kStagingBytes = 4 << 20;

  // Called on all ranks with the same length and op. Either all ranks pass the same part of the
  // same allocation of their host's memory, or all pass ordinary memory. Afterwards all ranks
  // hold the same bits, because each element is finished on one rank and then copied.
  template <MpiScalar T>
  void all_reduce(std::span<T> data, ReduceOp op);

 private:
  template <MpiScalar T>
  void reduce(std::span<T> data, ReduceOp op);

  int ranks_;
  int place_;  // this rank's place on its host
  // The parts of the tensor: as many as the smallest host has ranks. Other ranks have none.
  int parts_;
  SharedMemoryAllReduce& memory_;
  std::shared_ptr<std::byte> staging_;
  Communicator across_;  // the ranks with the same part; or those without a part
};

template <MpiScalar T>
void HierarchicalAllReduce::all_reduce(std::span<T> data, ReduceOp op) {
  check_op<T>(op);
  if (memory_.is_registered(data.data(), data.size_bytes())) return reduce(data, op);
  const std::span<T> staging(reinterpret_cast<T*>(staging_.get()), kStagingBytes / sizeof(T));
  while (!data.empty()) {
    const std::span<T> block = data.first(std::min(data.size(), staging.size()));
    std::ranges::copy(block, staging.begin());
    reduce(staging.first(block.size()), op);
    std::ranges::copy(staging.first(block.size()), block.begin());
    data = data.subspan(block.size());
  }
}

// [10] Reduce-scatter inside the host, all-reduce across hosts, all-gather inside the host.
template <MpiScalar T>
void HierarchicalAllReduce::reduce(std::span<T> data, ReduceOp op) {
  // The average divides once, by the number of all ranks.
  const ReduceOp step = op == ReduceOp::avg ? ReduceOp::sum : op;
  memory_.reduce_scatter(data, step, parts_);
  if (place_ < parts_) {
    const std::span<T> mine = window(data, chunk_range(data.size(), parts_, place_));
    // Rabenseifner's algorithm sends as many bytes as the ring, in fewer messages, if the
    // number of hosts is a power of two.
    if (std::has_single_bit(static_cast<unsigned>(across_.size()))) {
      all_reduce_rabenseifner(across_, mine, step);
    } else {
      all_reduce_pipelined_ring(across_, mine, step);
    }
    finish(op, mine, ranks_);
  }
  memory_.all_gather(data, parts_);
}

}  // namespace dist
