// The reference: of all lines through two of the points, the one with the smallest sum of
// |log(line / time)| over all points. A line that minimizes a sum of absolute values passes
// through two of the points, just as a median is one of the values.
#pragma once

#include "01_send_recv/alpha_beta.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace dist::exercise {

inline LinkCost fit_alpha_beta(std::span<const CostPoint> points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (const CostPoint& p : points) {
    for (const CostPoint& q : points) {
      if (p.bytes >= q.bytes) continue;  // takes each pair once, and skips pairs of equal size
      LinkCost line;
      line.beta_s_per_byte = (q.seconds - p.seconds) / static_cast<double>(q.bytes - p.bytes);
      line.alpha_s = p.seconds - line.beta_s_per_byte * static_cast<double>(p.bytes);
      double sum = 0;
      for (const CostPoint& point : points) {
        // The logarithm of a negative number is NaN, and `sum < least` is then false.
        sum += std::abs(std::log(line.line_seconds(point.bytes) / point.seconds));
      }
      if (!(sum < least)) continue;
      least = sum;
      best = line;
    }
  }
  return best;
}

}  // namespace dist::exercise
