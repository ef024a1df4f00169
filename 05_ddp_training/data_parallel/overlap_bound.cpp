#include "05_ddp_training/data_parallel/overlap_bound.hpp"

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

double ReducedStep::communication_ms() const {
  double sum = 0;
  for (const auto& work : works) sum += work->elapsed_ms();
  return sum;
}

double ReducedStep::hideable_ms(const Event& computed) const {
  if (works.empty()) return 0;
  // Measure times from the moment when the first bucket was full. Subtract the time of
  // all-reduces that delay backward, to find out how long backward alone would have taken.
  std::vector<double> since;
  std::vector<double> took;
  double held_up = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    since.push_back(elapsed_ms(full.front(), full[i]) - held_up);
    took.push_back(works[i]->elapsed_ms());
    if (!overlaps) held_up += took.back();
  }
  return dist::hideable_ms(since, took, elapsed_ms(full.front(), computed) - held_up);
}

}  // namespace dist
