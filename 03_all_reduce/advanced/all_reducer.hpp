// What this file adds: the all-reduce that a program keeps. It owns what the algorithms of one
// communicator need beside the tensor: shared memory, and a plan of which algorithm for which
// size.
// Builds on: all the algorithms of this lesson, and the cost model that chooses among them.
#pragma once

#include "03_all_reduce/advanced/cost_model.hpp"
#include "03_all_reduce/advanced/shared_memory.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/tensor.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dist {

class AllReducer {
 public:
  // Called on all ranks of `comm`, which must outlive this object. The plan is made from
  // `costs` on rank 0 and is everybody's. Shared memory is used if `comm` is on one host.
  explicit AllReducer(const Communicator& comm, StepCosts costs = guessed_costs());

  // Called on all ranks, for predictions: measures what this host takes for up to `most_bytes`
  // and puts it into costs(). The plan stays as it is.
  void measure_costs(std::size_t most_bytes);

  // Called on all ranks with the same shape: a tensor in registered memory, or in ordinary
  // memory where the ranks share none. It may go away at any time, on each rank by itself, also
  // after this object.
  Tensor allocate(Shape shape);

  // Called on all ranks with the same length, op and algorithm, and with the same part of the
  // same registered tensor, or each with memory of its own. Afterwards `data` is the same on
  // all, to the bit, and for whatever MPI's own does. Throws Error for shared-memory where
  // there is none.
  template <MpiScalar T>
  void all_reduce(std::span<T> data, ReduceOp op,
                  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic);

  // What runs when `algorithm` is asked for. The same on all ranks.
  AllReduceAlgorithm chosen(AllReduceAlgorithm algorithm, std::size_t bytes,
                            bool registered) const;
  // Whether all ranks reach this memory of this rank.
  bool is_registered(const void* data, std::size_t bytes);
  // Why there is no shared memory, as a sentence; empty if there is.
  const std::string& why_no_shared_memory() const { return why_no_shared_memory_; }
  // Where shared memory is used, its parts; and what a message costs.
  const StepCosts& costs() const { return costs_; }

 private:
  const Communicator& comm_;
  StepCosts costs_;
  std::string why_no_shared_memory_;
  std::optional<SharedMemoryAllReduce> shared_;
  std::optional<AllReducePlan> plan_;
};

template <MpiScalar T>
void AllReducer::all_reduce(std::span<T> data, ReduceOp op, AllReduceAlgorithm algorithm) {
  check_op<T>(op);
  if (comm_.size() == 1) return;  // alone, a rank's data is its own sum, average and maximum
  if (algorithm == AllReduceAlgorithm::automatic) {
    algorithm =
        chosen(algorithm, data.size_bytes(), is_registered(data.data(), data.size_bytes()));
  }
  if (algorithm != AllReduceAlgorithm::shared_memory) {
    return dist::all_reduce(comm_, data, op, algorithm);
  }
  if (!shared_) throw Error("shared-memory: " + why_no_shared_memory_);
  shared_->all_reduce(data, op);
}

}  // namespace dist
