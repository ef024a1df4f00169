// What this file adds: everything around the training loop: where the run starts or resumes,
// when it reports, saves, tests, compares replicas and ends.
// Look at: step, which reads a step's outcome while later ones run.
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

#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/trainer/step_graph.hpp"
#include "05_ddp_training/trainer/training_plan.hpp"
#include "common/cpu_quota.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

class Evaluation;
class Report;

class Trainer {
 public:
  // Called on all ranks. Resumes the run that the plan continues, if any, and prints the first
  // lines. All arguments must outlive this: captured steps use their memory.
  Trainer(const TrainingPlan& plan, Module& model, ProcessGroup& group, DataParallel& ddp,
          Optimizer& optimizer, CrossEntropyLoss& loss);
  ~Trainer();  // where the types of its members are complete
  Trainer(Trainer&&) = delete;

  // The number of the epoch to train, or nullopt if the run is over.
  std::optional<std::size_t> next_epoch();
  // The batches of this epoch that have not been taken yet.
  std::vector<BatchSamples> remaining(const DistributedSampler& sampler) const {
    return plan_.batches_after(sampler, epoch_, position_.taken);
  }
  // Called on all ranks for each batch. Calls `queue_work`, which queues the batch's work in
  // its step. On a GPU, most steps replay what an earlier call queued (StepGraph). Returns
  // false if the run is over or must stop.
  bool step(const Batch& batch, const std::function<void()>& queue_work);
  // Called on all ranks after each epoch.
  void end_epoch();
  // Whether all steps have been taken, and nothing is wrong. The same on all ranks, once
  // next_epoch has returned nullopt.
  bool is_done() const { return position_.step >= total_steps_ && !must_stop(); }
  double samples_per_second() const;
  // Called on all ranks at the end. Saves, compares and reports; the last row ends with what
  // the program has measured itself, `more`. Returns the exit status.
  int verdict(const Json& more);
  int verdict();

 private:
  struct Step;
  void find_slow_rank();
  void queue(const Batch& batch, const std::function<void()>& queue_work);
  void end_step(const Batch& batch);
  void between_steps();
  void read(std::size_t count);  // waits for the oldest `count` steps, and reads them
  void read(Step& step);
  // Whether the run must end now, on request or because of a problem. All ranks agree.
  bool must_stop() const { return stop_requested_ || !problem_.empty(); }
  void start_clock();
  void compare_replicas();
  void save();
  void test();
  std::string what_diverged() const;    // as a sentence; empty if every parameter is finite
  std::string learned_nothing() const;  // Report's, the same on all ranks
  std::vector<TensorSource> tensors() const;

  const TrainingPlan& plan_;
  Module& model_;
  ProcessGroup& group_;
  DataParallel& ddp_;
  Optimizer& optimizer_;
  const Communicator& comm_;
  const Stream& stream_;
  Position position_;
  std::size_t epoch_ = 0;  // the one that runs; position_.epoch may be the next one already
  bool epoch_is_whole_ = true;  // this run began it
  std::size_t total_steps_;
  bool stop_requested_ = false;
  std::string problem_;  // why training cannot continue, as a sentence; empty if it can
  std::unique_ptr<Evaluation> evaluation_;  // null without a test set
  std::unique_ptr<Report> report_;

  // What the ranks average in each step besides the gradients. On the device, and copies for
  // the steps in flight on the host.
  struct StepNumbers {
    double loss = 0;
    // Once averaged, above 0 on all ranks:
    double stop = 0;      // 1 if this rank is asked to stop
    double diverged = 0;  // 1 if its last update made a parameter infinite or NaN
  };
  Buffer<StepNumbers> numbers_, host_numbers_;
  Buffer<double> asked_;        // 1 on the host, to be copied
  std::unique_ptr<Step> step_;  // so far
  Event mark_;                  // where the wait for the next batch begins
  std::deque<std::unique_ptr<Step>> in_flight_;
  std::size_t most_in_flight_;
  double last_step_ms_ = std::numeric_limits<double>::infinity();  // until one is read
  bool counts_ = true;                                             // the messages of this step
  StepGraph graph_;  // ends before what its steps use
  CpuQuota quota_before_ = cpu_quota();
};

}  // namespace dist
