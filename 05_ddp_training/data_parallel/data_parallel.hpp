// What all ways of data parallelism have in common: they wrap a model that knows nothing of
// ranks, and add messages to its construction, to its backward pass and to its loss, nothing
// else.
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

  // Called on all ranks. With `ends_step` every grad is afterwards the mean over the ranks, for
  // work that is queued on `stream` from now on. Without, this batch is only a part of a step:
  // its gradients are kept on this rank for the call that ends the step, and nothing is sent
  // (PyTorch: no_sync). Returns ends_step.
  bool backward(const Tensor& grad_logits, const Stream& stream, bool ends_step = true);

  // Called on all ranks after each step: the loss of `outcome` becomes the mean over the ranks,
  // and its question whether to stop is asked of all of them. Rank 0's own loss would be that
  // of rank 0's samples. Nobody waits here; StepOutcome::wait does.
  StepOutcome mean(StepOutcome outcome, const Stream& stream);

  // The messages of the next step are counted (common/watch), and reported by its mean().
  void count_next_step() { counts_next_ = true; }

  // Of the last backward; waits for its communication to end.
  CommunicationTimes communication_times(const Stream& stream);

 protected:
  // Called on all ranks: rank 0's parameters become everybody's. With one --seed on all ranks
  // they are equal already; with a seed per rank, or a file that only rank 0 has read, each
  // rank would train a model of its own without this: equal gradients keep unequal models
  // unequal.
  DataParallel(Mlp& module, ProcessGroup& group, const Stream& stream);

  // Backward of a part of a step.
  virtual void backward_of_part(const Tensor& grad_logits, Accumulate accumulate,
                                const Stream& stream) {
    module_.backward(grad_logits, stream, accumulate);
  }
  // Backward and average; sets computed_ when backward's own work has been queued.
  virtual void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                                    const Stream& stream) = 0;
  virtual void start_mean(StepOutcome& outcome, const Stream& stream) {
    outcome.collective = group_.mean(outcome.numbers, outcome.result, stream);
  }
  // How long the last step's all-reduces took, to be asked later: all of them, and the part
  // that backward, which ended at `computed`, could have hidden.
  struct Durations {
    double total = 0;
    double hideable = 0;  // what starts only after backward cannot be hidden behind it
  };
  virtual std::function<Durations(const Event& computed)> take_durations() = 0;

  Mlp& module_;
  ProcessGroup& group_;
  Event computed_;

 private:
  std::function<CommunicationTimes()> take_times();

  Event averaged_;
  Accumulate accumulate_ = Accumulate::no;  // of the next backward
  bool counts_next_ = false;
  std::optional<std::uint64_t> bytes_sent_;
};

}  // namespace dist
