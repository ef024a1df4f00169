// The common base of all kinds of data parallelism. Each kind wraps a model that knows nothing
// about ranks, and adds messages in three places only: construction, the backward pass, and the
// loss.
#pragma once

#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/trainer/report/step_outcome.hpp"
#include "common/watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace dist {

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  virtual Tensor forward(const Tensor& input, const Stream& stream) {
    const CallScope scope("forward");  // a row of the trace
    return module_.forward(input, stream);
  }

  // Called on all ranks. If the loss is that of the last batch of a step, work queued on
  // `stream` after this call sees every grad as the mean over the ranks, and loss.numbers() as
  // well: rank 0's own loss covers only its samples. Otherwise the gradients stay on this rank
  // until the call that ends the step, and nothing is sent (no_sync in PyTorch). Returns
  // whether the step has ended.
  bool backward(const CrossEntropyLoss& loss, const Stream& stream);
  // The same for the gradient of any function of the logits.
  bool backward(const Tensor& grad_logits, const Stream& stream,
                const Batch::Place& place = {});

  // Called after each step. Does not wait.
  StepOutcome outcome();

  // Counts the messages of the next step (common/watch); that step's outcome() reports them.
  void count_next_step() { counts_ = true; }

  // The communication times of the last backward pass. Waits until its communication has ended.
  CommunicationTimes communication_times(const Stream& stream);

 protected:
  // Called on all ranks. Broadcasts rank 0's parameters. With the same --seed on all ranks, the
  // parameters are already equal. With different seeds, or a file that only rank 0 has read,
  // the models would otherwise stay different, because equal updates preserve their
  // differences.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);

  // Runs `body`, which waits for its messages, and counts them if this step's are counted.
  void count(const std::function<void()>& body);

  // Runs backward for a part of a step.
  virtual void backward_of_part(const Tensor& grad_logits, Accumulate accumulate,
                                const Stream& stream) {
    module_.backward(grad_logits, stream, accumulate);
  }
  // Runs backward and averages the gradients. May send numbers_ along, and then empties it.
  // Sets computed_ once backward's own work has been queued.
  virtual void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                                    const Stream& stream) = 0;
  // Averages numbers_, if backward_and_average has not.
  virtual void average_numbers(const Stream& stream);
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
  std::span<double> numbers_;      // CrossEntropyLoss::numbers
  std::span<const double> means_;  // CrossEntropyLoss::means

 private:
  std::function<CommunicationTimes()> take_times();

  Event averaged_;
  bool ended_ = false;   // a backward pass has ended a step since the last outcome()
  bool counts_ = false;  // this step's messages are counted
  std::optional<std::uint64_t> bytes_sent_;
};

}  // namespace dist
