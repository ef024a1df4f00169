// What this file adds: a step of training as one CUDA graph. The work that a step queues is
// recorded once and then replayed with one call, instead of some twenty launches per step.
//
//   graph.run(batch, [&] {
//     ... queue the step's work on the stream ...
//   });
//
// A replay repeats the same kernels with the same arguments, and none of the host's code. So
// the step must read everything that changes from memory: the batch, which is always delivered
// to the same address, and the learning rate.
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "common/stream.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

namespace dist {

class StepGraph {
 public:
  // Without `enabled`, or on the CPU, run() only calls the step. `stream` must outlive this.
  StepGraph(const Stream& stream, bool enabled)
      : stream_(stream), enabled_(enabled && !stream.device().is_cpu()) {}

  // Calls `queue_step`, or replays what it queued for an earlier batch of the same size and
  // place. The first steps, and the first batch of each kind, are not recorded, because they
  // allocate memory and connect ranks; nor is one step in a hundred, so that its parts can be
  // timed. Returns whether `queue_step` was called, so that its times are known.
  bool run(const Batch& batch, const std::function<void()>& queue_step);

  // The number of kernels in the last graph that was captured; 0 if there is none.
  std::size_t kernels() const { return kernels_; }

 private:
  // Rows, parts of the step, whether it is the first part, and whether it is the last one.
  using Kind = std::tuple<std::size_t, std::size_t, bool, bool>;

  std::shared_ptr<void> capture(const std::function<void()>& queue_step);

  const Stream& stream_;
  bool enabled_;
  std::size_t steps_ = 0;
  std::size_t kernels_ = 0;
  // Null until captured. CUDA keeps a graph that is destroyed while queued work uses it.
  std::map<Kind, std::shared_ptr<void>> graphs_;
};

}  // namespace dist
