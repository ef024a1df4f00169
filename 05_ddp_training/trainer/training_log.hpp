// What a run reports: a row per step, a line per epoch, a summary at the end.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/trainer/metrics_file.hpp"
#include "05_ddp_training/trainer/training_memory.hpp"
#include "05_ddp_training/trainer/training_options.hpp"
#include "common/console.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dist {

// Who trained, for the summary.
struct RunDescription {
  std::string device;
  std::string backend;    // null in the summary if empty
  std::string algorithm;  // likewise
  int ranks = 1;
  std::optional<std::uint64_t> bytes_sent{};  // by a rank in a step; nothing if in no message
  double least_bytes = 0;                     // the least that it must send
  std::string overlap;  // why communication is hidden or not, for the reader
  TrainingMemory memory;
};

// Where one step's time went, in milliseconds.
struct StepTimes {
  double step = 0;
  double data = 0;           // waiting for the batch
  double communication = 0;  // all-reduces, one after the other
  double exposed = 0;        // the part of them during which nothing was computed
  double hideable = 0;       // the part of them that backward could have hidden
  double optimizer = 0;
  double compute() const { return step - data - exposed - optimizer; }  // forward, backward
};

class TrainingLog {
 public:
  // `console` and `options` must outlive the log. The run begins after `steps_before` steps of
  // an earlier one and ends after `total_steps`. Opens --metrics on the process that speaks;
  // throws Error if it cannot.
  TrainingLog(const Console& console, const TrainingOptions& options, std::size_t steps_before,
              std::size_t total_steps);

  // Before the first step, and after a pause that is not part of a step (an evaluation).
  void start_clock();
  // When a batch is there, when another one is wanted for the same step, and when `stream` has
  // been given all work up to the optimizer's.
  void batch_is_here();
  void more_is_wanted();
  void gradients_are_here(const Stream& stream);
  // After each optimizer step, with the loss before it, averaged over ranks, and the learning
  // rate it took; `samples` is what all ranks together learned from. Of `times` the
  // communication's two are read. A step that a guard skipped says which parameter's gradient
  // was not finite. Waits for the stream.
  void step(std::size_t epoch, double loss, double lr, std::size_t samples, StepTimes times,
            const Stream& stream, const std::string& not_finite = "");
  // After each epoch. No accuracy for data without a test set.
  void epoch(std::size_t epoch, std::optional<double> test_accuracy);
  // Instead, when nothing was trained.
  void tested(std::optional<double> test_accuracy);
  // The run ends before its end because it was asked to; `checkpoint` holds it.
  void stopped(const std::string& checkpoint);
  // At the end; returns false if a parameter is not finite any more.
  bool summary(const RunDescription& run, std::span<const Parameter> parameters,
               bool replicas_identical, const Stream& stream);

  // Since the start of training, an earlier run's included.
  std::size_t steps() const { return steps_before_ + times_.size(); }
  bool checkpoint_due() const;

 private:
  const Console& console_;
  const TrainingOptions& options_;
  std::size_t steps_before_;
  std::size_t total_steps_;
  std::optional<MetricsFile> metrics_;
  ProgressBar progress_;
  std::chrono::steady_clock::time_point last_;
  double data_ms_ = 0;  // of the step under way
  std::chrono::steady_clock::time_point batch_asked_;
  std::optional<Event> gradients_;
  std::vector<StepTimes> times_;
  std::vector<std::size_t> samples_;
  double epoch_loss_ = 0;
  std::size_t epoch_steps_ = 0;
  std::size_t skipped_ = 0;
  std::optional<double> test_accuracy_;
};

}  // namespace dist
