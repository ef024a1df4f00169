// What this file adds: an object that a program keeps for all its all-reduces. For one
// communicator, it owns the shared memory that some algorithms need, and a plan that says for
// each size which algorithm `auto` is.
// Builds on: all algorithms of this lesson, and the cost model.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/choice/cost_model.hpp"
#include "03_all_reduce/one_host/shared_memory.hpp"
#include "03_all_reduce/several_hosts/hierarchical.hpp"
#include "common/tensor.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace dist {

class AllReducer {
 public:
  // Called on all ranks of `comm`, which must outlive this object. Rank 0 makes the plan from
  // lesson 1's costs of messages if it has `measured` them, and from guesses otherwise, and
  // broadcasts it. The ranks of each host share memory.
  explicit AllReducer(const Communicator& comm, const std::optional<LinkCost>& measured = {});
  AllReducer(AllReducer&&) = delete;  // its members refer to each other

  // Called on all ranks with the same shape. Returns a tensor in registered memory, or in
  // ordinary memory if the ranks share no memory. Each rank may destroy its tensor at any time,
  // even after it has destroyed this object.
  Tensor allocate(Shape shape);

  // Called on all ranks with the same length, op and algorithm. Either all ranks pass the same
  // part of the same registered tensor, or all pass ordinary memory. Afterwards all ranks hold
  // the same bits (with `mpi`, only if MPI guarantees equal bits). Throws Error if
  // shared-memory or hierarchical is requested but unavailable.
  template <MpiScalar T>
  void all_reduce(std::span<T> data, ReduceOp op,
                  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic);

  // The two halves of an all-reduce, in place. reduce_scatter leaves the result of chunk r
  // (chunk_range) on rank r; its other chunks then hold anything. all_gather copies chunk r of
  // rank r to all ranks. Called on all ranks, as all_reduce. `algorithm` is `ring`, whose
  // all-reduce consists of these halves, or `shared-memory` or `auto`, which use the ring for
  // ordinary memory. Throws Error for the other algorithms.
  template <MpiScalar T>
  void reduce_scatter(std::span<T> data, ReduceOp op, AllReduceAlgorithm algorithm);
  template <MpiScalar T>
  void all_gather(std::span<T> data, AllReduceAlgorithm algorithm);

  // The algorithm that runs when `algorithm` is requested. All ranks get the same answer.
  AllReduceAlgorithm chosen(AllReduceAlgorithm algorithm, std::size_t bytes) const;
  // Whether all ranks on this host can access this memory directly.
  bool is_registered(const void* data, std::size_t bytes) {
    return shared_ && shared_->is_registered(data, bytes);
  }
  // The reason why shared-memory is unavailable, as a sentence; empty if it is available.
  const std::string& why_no_shared_memory() const { return why_no_shared_memory_; }
  // Whether there are several hosts, and the ranks of each share memory.
  bool has_hierarchical() const { return hierarchical_.has_value(); }
  const StepCosts& costs() const { return costs_; }

 private:
  // What carries the halves for this memory; null for the ring.
  SharedMemoryAllReduce* carrier_of_halves(AllReduceAlgorithm algorithm,
                                           std::span<const std::byte> data);

  bool on_one_host() const { return host_.size() == comm_.size(); }

  const Communicator& comm_;
  Communicator host_;  // the ranks on this rank's host
  StepCosts costs_;
  std::string why_no_shared_memory_;
  std::optional<SharedMemoryAllReduce> shared_;        // this host's memory
  std::optional<HierarchicalAllReduce> hierarchical_;  // if there are several hosts
  std::array<AllReduceAlgorithm, 65> plan_{};          // by the number of bits of the size
};

template <MpiScalar T>
void AllReducer::all_reduce(std::span<T> data, ReduceOp op, AllReduceAlgorithm algorithm) {
  check_op<T>(op);
  if (comm_.size() == 1) return;  // a single rank's data is its own sum, average and maximum
  const AllReduceAlgorithm runs = chosen(algorithm, data.size_bytes());
  const bool hierarchical = runs == AllReduceAlgorithm::hierarchical;
  if (!hierarchical && runs != AllReduceAlgorithm::shared_memory) {
    return dist::all_reduce(comm_, data, op, runs);
  }
  if (hierarchical && hierarchical_) return hierarchical_->all_reduce(data, op);
  if (!why_no_shared_memory_.empty()) {
    throw Error(to_string(algorithm) + ": " + why_no_shared_memory_);
  }
  shared_->all_reduce(data, op);
}

template <MpiScalar T>
void AllReducer::reduce_scatter(std::span<T> data, ReduceOp op, AllReduceAlgorithm algorithm) {
  check_op<T>(op);
  if (comm_.size() == 1) return;
  if (SharedMemoryAllReduce* const shared = carrier_of_halves(algorithm, std::as_bytes(data))) {
    return shared->reduce_scatter(data, op, comm_.size());
  }
  ring_reduce_scatter(comm_, data, op);
}

template <MpiScalar T>
void AllReducer::all_gather(std::span<T> data, AllReduceAlgorithm algorithm) {
  if (comm_.size() == 1) return;
  if (SharedMemoryAllReduce* const shared = carrier_of_halves(algorithm, std::as_bytes(data))) {
    return shared->all_gather(data, comm_.size());
  }
  ring_all_gather(comm_, data);
}

}  // namespace dist
