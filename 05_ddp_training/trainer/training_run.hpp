// What this file adds: everything around the loop: where the run starts and goes on from, what
// it prints, when it saves, tests and compares, and when it ends.
// Look at: after_step, which reads a step's outcome while the next one runs.
//
// Nothing here sends a message but at the start, at checks, tests and checkpoints, and at the
// end.
#pragma once

#include "05_ddp_training/advanced/guards/guards.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "05_ddp_training/trainer/setup.hpp"
#include "05_ddp_training/trainer/step_outcome.hpp"
#include "05_ddp_training/trainer/training_log.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace dist {

class TrainingRun {
 public:
  // Called on all ranks. Rank 0's `model` and everybody's `optimizer` become those of the file
  // that the run starts from, if there is one; draws the synthetic data. All three must outlive
  // the run.
  TrainingRun(Setup& setup, Mlp& model, Optimizer& optimizer);

  // The number of the epoch to train; nothing when the run is over.
  std::optional<std::size_t> next_epoch();
  // What this run has left of the epoch's samples.
  template <class Sampler>
  std::vector<std::size_t> remaining(const Sampler& sampler) const {
    return sampler.indices_after(position_.taken);
  }
  // Of the next step. It counts all steps, those that were skipped too.
  double learning_rate() const { return schedule_.at(position_.step); }

  // This rank's loss of the step, and whether it was asked to stop. Nobody waits for it.
  StepOutcome outcome(const CrossEntropyLoss& loss);
  // Called on all ranks after each step. False if the epoch must be left: the run has taken all
  // its steps, or must stop.
  bool after_step(StepOutcome outcome);
  // Called on all ranks after each epoch.
  void after_epoch();
  // Called on all ranks at the end: saves, compares, sums up. The exit status.
  int verdict();

 private:
  // A step that has been queued, and whose outcome nobody has looked at.
  struct Pending {
    std::size_t epoch;
    double lr;
    StepOutcome outcome;
    const UpdateState* update;
    Event begin, optimizer_began, end;
  };
  void read(Pending& step);
  // Reads the outcome of the last step: it is waited for.
  void drain();
  void start_clock() { step_began_ = stream_.record_event(); }
  void save();
  // Called on all ranks; nothing for data without a test set.
  std::optional<double> test_accuracy();

  Setup& setup_;
  Mlp& model_;
  Optimizer& optimizer_;
  const Stream& stream_;
  LrSchedule schedule_;
  Position position_;
  std::size_t total_steps_ = 0;
  Guards guards_;
  std::optional<TrainingLog> log_;
  StepTimeline times_;
  Summary summary_;

  std::optional<Pending> pending_;
  Event step_began_;
  // Two steps are under way at most. Each has two numbers, on the device and on the host.
  Buffer<double> numbers_;
  Buffer<double> results_;
  std::size_t slot_ = 0;
};

}  // namespace dist
