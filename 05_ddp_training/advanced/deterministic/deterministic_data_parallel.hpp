// What this file adds: data parallelism whose bits do not depend on the number of processes.
// Builds on: virtual_ranks (who learns from what), tree_sum (in which order is added).
// Look at: what it gives up for that: large matrix products, and an all-reduce that runs beside
// backward.
//
// Two things make the bits of an average depend on the number of ranks: how many rows a matrix
// product has, because a library adds them up in blocks, and in which order the ranks'
// gradients are added. Here every virtual rank has a backward pass of its own, with the same
// few rows everywhere, and the gradients are added in one fixed tree.
#pragma once

#include "05_ddp_training/advanced/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/data_parallel/data_parallel.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// A step takes one batch of each of this process's ranks, in the order of VirtualRanks::local:
// each but the last as a part of the step. Each batch's loss is its own mean, not divided
// by their number: that is done once, at the end, where a rank's tiny gradients have met the
// others' and are not rounded for themselves.
class DeterministicDataParallel : public DataParallel {
 public:
  // Called on all ranks of `group`, of which there are 1, 2, 4, 8, ... Replaces the grad of
  // every parameter of `module`.
  DeterministicDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                            const VirtualRanks& ranks);

 private:
  void backward_of_part(const Tensor& grad_logits, Accumulate accumulate,
                        const Stream& stream) override;
  void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                            const Stream& stream) override;
  void start_mean(StepOutcome& outcome, const Stream& stream) override;
  std::function<Durations(const Event&)> take_durations() override {
    return [total = exchanges_ms_](const Event&) { return Durations{.total = total}; };
  }

  void point_gradients_at(std::size_t slot);
  std::size_t ranks_here_;
  std::vector<Tensor> slots_;  // all gradients in a row, as often as tree_sum needs them
  std::size_t next_ = 0;       // of this process's ranks
  double exchanges_ms_ = 0;
};

// As the constructor.
std::unique_ptr<DataParallel> make_deterministic_data_parallel(Mlp& module, ProcessGroup& group,
                                                               const Stream& stream,
                                                               const VirtualRanks& ranks);

// What it costs, in one line for the reader. `batch_size` is of one virtual rank.
std::string cost_of_determinism(const VirtualRanks& ranks, std::size_t batch_size,
                                const Mlp& model);

}  // namespace dist
