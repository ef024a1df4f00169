#include "05_ddp_training/data_parallel/communication_times.hpp"

#include <algorithm>
#include <cstddef>

namespace dist {

double hideable_ms(std::span<const double> full, std::span<const double> took,
                   double computed) {
  double total = 0;
  double end = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    end = (i == 0 ? full[i] : std::max(end, full[i])) + took[i];
    total += took[i];
  }
  return total - std::max(0.0, end - computed);
}

CommunicationTimes Communication::times() const {
  CommunicationTimes times;
  std::vector<double> took;
  for (const auto& work : works) {
    took.push_back(work->elapsed_ms());
    times.total += took.back();
  }
  // Communication without its own thread or stream runs within backward and lengthens it.
  times.exposed = overlaps ? elapsed_ms(computed, averaged) : times.total;
  if (full.empty()) return times;
  // Measure times from the moment when the first bucket was full. Subtract the time of
  // all-reduces that delay backward, to find out how long backward alone would have taken.
  std::vector<double> since;
  double held_up = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    since.push_back(elapsed_ms(full.front(), full[i]) - held_up);
    if (!overlaps) held_up += took[i];
  }
  times.hideable = hideable_ms(since, took, elapsed_ms(full.front(), computed) - held_up);
  return times;
}

}  // namespace dist
