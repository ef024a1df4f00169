#include "05_ddp_training/trainer/guards/guards.hpp"

#include "05_ddp_training/data_parallel/replica_check.hpp"

#include <fmt/core.h>

namespace dist {

Guards::Guards(const Communicator& comm, std::span<const Parameter> parameters,
               GuardOptions options)
    : comm_(comm), parameters_(parameters), options_(options) {
  if (!options.stop_on_signal) release_stop_signals();
}

std::string Guards::after_step(const UpdateState& update, bool anybody_asked) {
  stop_requested_ = stop_requested_ || anybody_asked;
  if (update.is_open()) return "";
  const std::string& culprit = parameters_[static_cast<std::size_t>(update.culprit)].name;
  if (update.skipped_in_a_row == UpdateState::kMostSkippedInARow && problem_.empty()) {
    problem_ =
        fmt::format("{} steps in a row had to be skipped: the gradient of {} is not finite",
                    update.skipped_in_a_row, culprit);
  }
  return culprit;
}

bool Guards::compares_after(std::size_t steps) const {
  return options_.check_replicas != 0 && steps % options_.check_replicas == 0;
}

void Guards::compare_replicas(std::size_t steps, const Stream& stream) {
  const std::string difference = first_difference(comm_, parameters_, stream);
  if (difference.empty()) return;
  problem_ = fmt::format("the replicas differ after step {}, first in {}", steps, difference);
}

}  // namespace dist
