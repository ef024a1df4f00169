// Finds the rank that the others wait for.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace dist {

struct Slowest {
  int rank;
  double ratio;  // its busy time divided by the median of the others'
};

// `busy` holds each rank's computing time, in rank order and in any unit, excluding waits for
// other ranks. All ranks must have had equal work. Returns nullopt unless the busiest rank took
// at least 1.75 times the median of the others: a rank on a slow core sometimes takes 1.5 times
// as long, and a rank at half speed takes twice as long. If there are two middle values, the
// median is the larger one, so that no rank is named if two of three are slow.
inline std::optional<Slowest> slowest(std::span<const double> busy) {
  constexpr double kSlow = 1.75;
  std::vector<double> sorted(busy.begin(), busy.end());
  if (sorted.size() < 2) return std::nullopt;
  std::ranges::sort(sorted);
  const double most = sorted.back();
  const double median = sorted[(sorted.size() - 1) / 2];  // of all but the last
  if (median <= 0 || most < kSlow * median) return std::nullopt;
  return Slowest{static_cast<int>(std::ranges::find(busy, most) - busy.begin()), most / median};
}

}  // namespace dist
