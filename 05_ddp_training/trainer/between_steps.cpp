// What the trainer does between steps: compare the replicas, save, and test.
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "05_ddp_training/trainer/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <span>

namespace dist {
namespace {

// Adds the time until the end of its scope.
struct TimeScope {
  using Clock = std::chrono::steady_clock;
  double& total_ms;
  Clock::time_point begin = Clock::now();
  ~TimeScope() {
    total_ms += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
};

}  // namespace

void Trainer::between_steps() {
  // Most of these steps are done by now. What they report is the same on all ranks.
  if (in_flight_.size() == most_in_flight_) read(most_in_flight_ / 2);
  const auto is_due = [&](std::size_t every) {
    return every > 0 && position_.step % every == 0;
  };
  const bool compare = plan_.has_replicas() && is_due(plan_.options().check_replicas);
  const bool checkpoint = is_due(plan_.options().checkpoint_every);
  if (!compare && !checkpoint) return;
  read(in_flight_.size());
  if (compare) compare_replicas();
  if (checkpoint && problem_.empty()) save();
  start_clock();  // time spent here is not part of a step
}

void Trainer::compare_replicas() {
  const TimeScope time{report_->summary.between_ms.replica_checks};
  const std::string difference = first_difference(comm_, model_.parameters(), stream_);
  if (difference.empty()) return;
  problem_ =
      fmt::format("the replicas differ after step {}, first in {}", position_.step, difference);
}

// What a checkpoint holds. Called on all ranks, get() returns the whole tensor on rank 0.
std::vector<TensorSource> Trainer::tensors() const {
  std::vector<TensorSource> all = checkpoint_tensors(model_.parameters(), optimizer_);
  const std::span<const Parameter> values = ddp_.kept().values;
  for (std::size_t i = plan_.has_replicas() ? values.size() : 0; i < all.size(); ++i) {
    const Tensor mine = i < values.size() ? values[i].value : all[i].get();
    all[i].get = [this, p = i % values.size(), mine] { return ddp_.gather(p, mine, stream_); };
  }
  return all;
}

void Trainer::save() {
  const TimeScope time{report_->summary.between_ms.checkpoints};
  const std::string& path = plan_.options().checkpoint;
  // Each rank tests what it updates. Nothing could resume from numbers that are not finite.
  const bool finite =
      all_finite(optimizer_.parameters(), stream_) && all_finite(optimizer_.state(), stream_);
  if (!comm_.all_agree(finite)) {
    problem_ = fmt::format("training diverged by step {}, so {} was not written",
                           position_.step, path);
  } else if (comm_.rank() == 0) {  // two writers would damage the file
    save_checkpoint(path, tensors(), optimizer_, position_, plan_.settings(), stream_,
                    learned_nothing());
  } else {
    for (const TensorSource& tensor : tensors()) tensor.get();  // sends this rank's part
  }
}

std::string Trainer::learned_nothing() const {
  return report_->learned_nothing(plan_.model().outputs());
}

void Trainer::test() {
  if (!evaluation_) return;
  const TimeScope time{report_->summary.between_ms.tests};
  report_->summary.test_accuracy = evaluation_->accuracy(model_, comm_, !plan_.has_replicas());
}

}  // namespace dist
