// What this file adds: everything around the training loop: where the run starts or resumes,
// what it prints, when it saves, tests, compares replicas and ends.
// Look at: after, which reads a step's outcome while later ones run.
//
// This code sends messages only at the start, at the end, and for checks, tests and
// checkpoints.
#pragma once

#include "05_ddp_training/data_parallel/communication_times.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/guards/guards.hpp"
#include "05_ddp_training/trainer/options/setup.hpp"
#include "05_ddp_training/trainer/report/training_log.hpp"
#include "05_ddp_training/trainer/step_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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
  // The batches of this epoch that have not been taken yet: those of `sampler`, or those of all
  // the ranks that this process plays (--deterministic).
  template <class Sampler>
  std::vector<BatchSamples> remaining(const Sampler& sampler) const {
    if (setup_.ranks().per_process() > 1) return remaining_of_played_ranks();
    return setup_.batches().divide(sampler.indices_after(position_.taken));
  }
  // Sets the optimizer's learning rate and calls `queue_step`, which queues the work of a step
  // for the batch. On a GPU, most steps replay what an earlier call queued (StepGraph).
  void step(const Batch& batch, const std::function<void()>& queue_step);
  // The learning rate of the next step. Skipped steps count as steps of the schedule.
  double learning_rate() const { return schedule_.at(position_.step); }

  // Where the loss of a step goes, so that the optimizer can report it.
  const StepNumbers& numbers() const { return numbers_; }
  // Called on all ranks after each batch, with what the step sent, if this is known. Returns
  // false if the run is over or must stop.
  bool after(const Batch& batch, std::optional<Communication> sent = {});
  // Called on all ranks after each epoch.
  void after_epoch();
  // Called on all ranks at the end. Saves, compares and reports. Returns the exit status.
  int verdict();

 private:
  // A step that has been queued, but whose report has not been read yet.
  struct Pending {
    std::size_t epoch;
    bool replayed;
    std::size_t samples;  // on all ranks
    double waited_ms;     // for its batches
    double lr;
    double waits, allocations;  // calls of CUDA
    std::optional<Communication> sent;
    const UpdateState* report;
    Event begin;
    std::optional<Event> optimizer_began;
    Event end;
  };
  // Waits for the oldest `count` pending steps, and reads them.
  void read(std::size_t count);
  void read(const Pending& step);
  std::vector<BatchSamples> remaining_of_played_ranks() const;
  void start_clock();
  void save();
  // Called on all ranks. Returns nullopt for data without a test set.
  std::optional<double> test_accuracy();

  Setup& setup_;
  Mlp& model_;
  Optimizer& optimizer_;
  const Stream& stream_;
  LrSchedule schedule_;
  Position position_;
  std::size_t epoch_ = 0;  // the one that runs; position_.epoch may be the next one already
  std::size_t total_steps_ = 0;
  Guards guards_;
  std::optional<Evaluation> evaluation_;
  std::optional<TrainingLog> log_;
  StepTimeline times_;
  Summary summary_;

  StepGraph graph_;
  StepNumbers numbers_;
  std::deque<Pending> pending_;
  std::size_t most_pending_;
  bool counts_ = true;       // the messages of this step
  bool replayed_ = false;    // a part of the step so far
  std::size_t samples_ = 0;  // of the step so far, on this rank
  double waited_ms_ = 0;     // for its batches
  Event step_began_;
  std::uint64_t waits_ = 0;        // gpu_waits before the step
  std::uint64_t allocations_ = 0;  // likewise
};

}  // namespace dist
