// The common base of all kinds of data parallelism. Each kind wraps a model that knows nothing
// about ranks, and adds messages in three places only: construction, the backward pass, and the
// loss.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/trainer/step_outcome.hpp"
#include "common/watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace dist {

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  Tensor forward(const Tensor& input, const Stream& stream) {
    const CallScope scope("forward");  // a row of the trace
    return module_.forward(input, stream);
  }

  // Called on all ranks. If `ends_step` is true, work queued on `stream` after this call sees
  // every grad as the mean over the ranks. Otherwise this batch is only a part of a step: its
  // gradients stay on this rank until the call that ends the step, and nothing is sent (no_sync
  // in PyTorch). Returns ends_step.
  bool backward(const Tensor& grad_logits, const Stream& stream, bool ends_step = true);

  // Called on all ranks after each step. Averages the loss of `outcome` over the ranks, because
  // rank 0's own loss covers only its samples, and finds out whether any rank was asked to
  // stop. Does not wait; StepOutcome::wait does.
  StepOutcome mean(StepOutcome outcome, const Stream& stream);

  // Counts the messages of the next step (common/watch); that step's mean() reports them.
  void count_next_step() { counts_next_ = true; }

  // The communication times of the last backward pass. Waits until its communication has ended.
  CommunicationTimes communication_times(const Stream& stream);

 protected:
  // Called on all ranks. Broadcasts rank 0's parameters. With the same --seed on all ranks, the
  // parameters are already equal. With different seeds, or a file that only rank 0 has read,
  // the models would otherwise stay different, because equal updates preserve their
  // differences.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);

  // Runs backward for a part of a step.
  virtual void backward_of_part(const Tensor& grad_logits, Accumulate accumulate,
                                const Stream& stream) {
    module_.backward(grad_logits, stream, accumulate);
  }
  // Runs backward and averages. Sets computed_ once backward's own work has been queued.
  virtual void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                                    const Stream& stream) = 0;
  virtual void start_mean(StepOutcome& outcome, const Stream& stream) {
    outcome.collective = group_.mean(outcome.numbers, outcome.result, stream);
  }
  // Returns a function to call after the step. It returns how long the all-reduces took, and
  // how much of that time backward could have hidden, given that it ended at `computed`.
  struct Durations {
    double total = 0;
    double hideable = 0;  // an all-reduce that starts after backward cannot be hidden
  };
  virtual std::function<Durations(const Event& computed)> take_durations() = 0;

  Mlp& module_;
  ProcessGroup& group_;
  Event computed_;

 private:
  std::function<CommunicationTimes()> take_times();

  Event averaged_;
  Accumulate accumulate_ = Accumulate::no;  // of the next backward pass
  bool counts_next_ = false;
  std::optional<std::uint64_t> bytes_sent_;
};

}  // namespace dist
