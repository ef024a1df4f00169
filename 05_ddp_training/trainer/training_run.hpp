// What this file adds: everything around the training loop: where the run starts or resumes,
// what it prints, when it saves, tests, compares replicas and ends.
// Look at: after_step, which reads a step's outcome while the next one runs.
//
// This code sends messages only at the start, at the end, and for checks, tests and
// checkpoints.
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
  // Called on all ranks. If the run starts from a file, loads that file into rank 0's `model`
  // and all ranks' `optimizer`. Draws the synthetic data. All three arguments must outlive the
  // run.
  TrainingRun(Setup& setup, Mlp& model, Optimizer& optimizer);

  // The number of the epoch to train, or nullopt if the run is over.
  std::optional<std::size_t> next_epoch();
  // The samples of this epoch that have not been used yet.
  template <class Sampler>
  std::vector<std::size_t> remaining(const Sampler& sampler) const {
    return sampler.indices_after(position_.taken);
  }
  // The learning rate of the next step. Skipped steps count as steps of the schedule.
  double learning_rate() const { return schedule_.at(position_.step); }

  // This rank's loss in the step, and whether this rank was asked to stop. Does not wait.
  StepOutcome outcome(const CrossEntropyLoss& loss);
  // Called on all ranks after each step. Returns false if the run is over or must stop.
  bool after_step(StepOutcome outcome);
  // Called on all ranks after each epoch.
  void after_epoch();
  // Called on all ranks at the end. Saves, compares and reports. Returns the exit status.
  int verdict();

 private:
  // A step that has been queued, but whose outcome has not been read yet.
  struct Pending {
    std::size_t epoch;
    double lr;
    StepOutcome outcome;
    const UpdateState* update;
    Event begin, optimizer_began, end;
  };
  void read(Pending& step);
  // Waits for the last step's outcome and reads it.
  void drain();
  void start_clock() { step_began_ = stream_.record_event(); }
  void save();
  // Called on all ranks. Returns nullopt for data without a test set.
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
  // At most two steps are in progress. Each step has two numbers, which are kept both on the
  // device and on the host.
  Buffer<double> numbers_;
  Buffer<double> results_;
  std::size_t slot_ = 0;
};

}  // namespace dist
