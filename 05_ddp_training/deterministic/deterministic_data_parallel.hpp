// What this file adds: data parallelism with bitwise equal results on 1, 2, 4 and 8 processes.
// Builds on: virtual_ranks (which rank learns from which samples), tree_sum (the order of
// additions).
// Look at: the price, which is that there are no large matrix products, and no all-reduce that
// overlaps the backward pass.
//
// The bits of an average depend on the number of rows in a matrix product, because libraries
// add up the rows in blocks, and on the order in which the ranks' gradients are added. Here
// every virtual rank has its own backward pass, always over the same few rows, and the
// gradients are added in one fixed tree.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist {

// A step takes one batch of each of this process's ranks, in the order of VirtualRanks::local.
// Each batch's loss is the mean over that batch, not divided by the number of batches. Dividing
// only once, after all additions, avoids rounding each rank's small gradients separately.
class DeterministicDataParallel : public DataParallel {
 public:
  // Called on all ranks of `group`. Replaces the grad of every parameter of `module`.
  DeterministicDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                            const VirtualRanks& ranks);

  void backward(const CrossEntropyLoss& loss, const Stream& stream) override;
  // The same for the gradient of any function of the logits. Throws Error if a step does not
  // have one batch of each rank.
  void backward(const Tensor& grad_logits, const Stream& stream,
                const Batch::Place& place = {});

  // Called on all ranks. Sets numbers[0] to the mean of all processes' `means`, added in the
  // tree's order, and numbers[1] to that of their numbers[1]. All are on the device.
  void average(std::span<const double> means, std::span<double> numbers, const Stream& stream);

 private:
  void point_gradients_at(std::size_t slot);
  void average_gradients(const Stream& stream);

  ProcessGroup& group_;
  std::size_t ranks_here_;
  std::vector<Tensor> slots_;  // as many as tree_sum needs; each holds all gradients
};

// Returns one line of output on the cost of determinism. `batch_size` is that of one virtual
// rank.
std::string cost_of_determinism(const VirtualRanks& ranks, std::size_t batch_size,
                                const Mlp& model);

}  // namespace dist
