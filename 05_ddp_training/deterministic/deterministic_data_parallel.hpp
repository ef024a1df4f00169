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
#include <memory>
#include <string>
#include <vector>

namespace dist {

// A step takes one batch of each of this process's ranks, in the order of VirtualRanks::local.
// Each batch's loss is the mean over that batch, not divided by the number of batches. Dividing
// only once, after all additions, avoids rounding each rank's small gradients separately.
class DeterministicDataParallel : public DataParallel {
 public:
  // Called on all ranks of `group`. Replaces the grad of every parameter of `module`.
  DeterministicDataParallel(Module& module, ProcessGroup& group, const Stream& stream,
                            const VirtualRanks& ranks);

  // Throws Error if a step does not have one batch of each rank.
  void backward(const Tensor& grad_logits, const Batch::Place& place,
                const Stream& stream) override;

 private:
  // As if all gradients were on one rank, however many processes there are.
  GradientNorm norm(const Stream& stream) const override {
    const auto plans = plan_buckets(module_.parameters(), {});
    return {norm_ranges(module_.parameters(), plans, /*chunks=*/1), /*ranks=*/1,
            /*is_exchanged=*/false, stream};
  }
  void point_gradients_at(std::size_t slot);
  void average(const Stream& stream);

  std::size_t ranks_here_;
  // As many as tree_sum needs; each holds all gradients, or what travels along, on the host.
  std::vector<Tensor> slots_;
  std::vector<std::vector<double>> number_slots_;
};

// Returns one line of output on the cost of determinism. `batch_size` is that of one virtual
// rank.
std::string cost_of_determinism(const VirtualRanks& ranks, std::size_t batch_size,
                                const Module& model);

}  // namespace dist
