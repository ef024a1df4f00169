// The rank for which the others wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dist {

struct Slowest {
  int rank;
  double ratio;  // its busy time over the median of the others'
};

// `busy` is how long each rank computed while all had the same to do, by rank, in any unit: its
// time without the waits, in which the fast ranks spend the rest. nullopt unless the busiest
// rank needed at least 1.75 times the median of the others: a rank with a slow core is at 1.5
// now and then, one that is twice as slow is measured at 2. Of two middle values the median is
// the larger one, so that with three ranks two slow ones name nobody.
inline std::optional<Slowest> slowest(std::span<const double> busy) {
  constexpr double kSlow = 1.75;
  if (busy.size() < 2) return std::nullopt;
  const std::size_t busiest =
      static_cast<std::size_t>(std::ranges::max_element(busy) - busy.begin());
  std::vector<double> others(busy.begin(), busy.end());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(busiest));
  std::ranges::sort(others);
  const double median = others[others.size() / 2];
  if (median <= 0 || busy[busiest] < kSlow * median) return std::nullopt;
  return Slowest{static_cast<int>(busiest), busy[busiest] / median};
}

}  // namespace dist
