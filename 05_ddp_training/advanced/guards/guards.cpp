#include "05_ddp_training/advanced/guards/guards.hpp"

#include "05_ddp_training/advanced/guards/replica_check.hpp"

#include <fmt/core.h>

namespace dist {

Guards::Guards(const Communicator& comm, std::span<const Parameter> parameters,
               GuardOptions options, const Stream& stream)
    : comm_(comm), parameters_(parameters), options_(options), finite_(parameters, stream) {
  if (options.stop_on_signal) signal_.emplace();
}

bool Guards::may_step(const Stream& stream) {
  const std::string culprit = finite_.first_not_finite(stream);
  if (culprit.empty()) {
    skipped_in_a_row_ = 0;
    return true;
  }
  last_not_finite_ = culprit;
  ++skipped_;
  if (++skipped_in_a_row_ == kMostSkippedInARow) {
    problem_ =
        fmt::format("{} steps in a row had to be skipped: the gradient of {} is not finite",
                    skipped_in_a_row_, culprit);
  }
  return false;
}

void Guards::after_step(std::size_t steps, bool anybody_asked, const Stream& stream) {
  stop_requested_ = anybody_asked;
  if (options_.check_replicas == 0 || steps % options_.check_replicas != 0) return;
  const std::string difference = first_difference(comm_, parameters_, stream);
  if (difference.empty()) return;
  problem_ = fmt::format("the replicas differ after step {}, first in {}", steps, difference);
}

}  // namespace dist
