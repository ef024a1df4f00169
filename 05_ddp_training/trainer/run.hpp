// What this file adds: everything around the training loop: where the run starts or resumes,
// when it reports, saves, tests, compares replicas and ends.
// Look at: after, which reads a step's outcome while later ones run.
//
// What the loop keeps to:
//   - Nothing in a step waits for the device. Its loss, its finite check and its times stay
//     there, and are read when later steps have been queued.
//   - The steps' rows are printed in order, each once.
//   - What has been queued is read first before replicas are compared, a checkpoint is saved,
//     an epoch ends, or the program does.
//   - All ranks act on the outcome of the same step, so they stop after the same step.
//   - A resumed run takes exactly the steps that the original would have taken.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/trainer/guards.hpp"
#include "05_ddp_training/trainer/setup.hpp"
#include "05_ddp_training/trainer/step_graph.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

class Evaluation;

class TrainingRun {
 public:
  // Called on all ranks, after make_group. Loads the file that the run starts from, if any, and
  // draws the synthetic data. All three arguments must outlive the run.
  TrainingRun(Setup& setup, Mlp& model, Optimizer& optimizer);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // The loss, whose value every step's report reads.
  CrossEntropyLoss make_loss() const { return setup_.make_loss(numbers_); }
  // The number of the epoch to train, or nullopt if the run is over.
  std::optional<std::size_t> next_epoch();
  // The batches of this epoch that have not been taken yet: those of `sampler`, or those of all
  // the ranks that this process plays (--deterministic).
  std::vector<BatchSamples> remaining(const DistributedSampler& sampler) const {
    if (setup_.options.deterministic) {
      return setup_.batches_of_played_ranks(epoch_, position_.taken);
    }
    return setup_.batches().divide(sampler.indices_after(position_.taken));
  }
  // Calls `queue_step`, which queues the work of a step for the batch. On a GPU, most steps
  // replay what an earlier call queued (StepGraph).
  void step(const Batch& batch, const std::function<void()>& queue_step);
  // Called on all ranks after each batch, with what the step sent, if this is known. Returns
  // false if the run is over or must stop.
  bool after(const Batch& batch, std::optional<Communication> sent = {});
  // Called on all ranks after each epoch.
  void after_epoch();
  // Called on all ranks at the end. Saves, compares and reports. Returns the exit status.
  int verdict();

 private:
  // A step that has been queued, but whose outcome has not been read yet.
  struct Pending {
    double lr;
    StepTimes times;
    std::optional<Communication> sent;
    const UpdateState* outcome;
    Event begin;
    std::optional<Event> optimizer_began;
    Event end;
  };
  void read(std::size_t count);  // waits for the oldest `count` pending steps, and reads them
  void read(Pending& step);
  // The learning rate of the next step. Skipped steps count as steps of the schedule.
  double learning_rate() const { return schedule_.at(position_.step); }
  // Whether the run must end now, on request or because of a problem. All ranks agree.
  bool must_stop() const { return stop_requested_ || !problem_.empty(); }
  void start_clock();
  void save();
  void test();

  Setup& setup_;
  Mlp& model_;
  Optimizer& optimizer_;
  const Stream& stream_;
  LrSchedule schedule_;
  Position position_;
  std::size_t epoch_ = 0;  // the one that runs; position_.epoch may be the next one already
  std::size_t total_steps_;
  bool stop_requested_ = false;
  std::string problem_;  // why training cannot continue, as a sentence; empty if it can
  std::shared_ptr<Evaluation> evaluation_;  // null until the first test
  Report report_;

  StepGraph graph_;
  StepNumbers numbers_;
  std::deque<Pending> pending_;
  std::size_t most_pending_;
  StepTimes times_;  // of the step so far
  Event step_began_;
  bool counts_ = true;  // the messages of this step
};

// Called on all ranks; all get the same result: the fraction of the test set that the model
// classifies correctly. The ranks test different batches. Each batch holds the same samples
// whatever the number of ranks, and the counts are added up, so the result does not depend on
// that number. A model whose layers fetch their parameters needs `equally_many` calls of
// forward on every rank.
double test_accuracy(const Communicator& comm, Mlp& model, Evaluation& evaluation,
                     bool equally_many = false);

}  // namespace dist
