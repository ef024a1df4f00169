// Exercise: fit alpha and beta, the cost of a message, to measured times.
// Check it with ./learn check 1; ./learn hint 1 prints the next hint.
#pragma once

#include "01_send_recv/alpha_beta.hpp"  // CostPoint {bytes, seconds}; LinkCost
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Returns the line  seconds = alpha_s + beta_s_per_byte * bytes  that fits the points best.
// Only these two members of the result matter. Sends nothing.
//
// There are at least three points, of at least three different sizes. Sizes and times span up
// to six orders of magnitude, and all times are above zero. The points may be in any order, and
// a size may appear more than once.
//
// Target:
//   1. If all points are on a line, the result is that line, to within a millionth of each
//      time.
//   2. Every size has the same weight: if each time is up to 10 % too long or too short, the
//      line is off by less than 25 % at every size.
//   3. One bad measurement does not spoil the fit: if ten of eleven points are on a line, and
//      the time of the other one is too long or too short by a factor of 50, the line is off by
//      less than 5 % at every size.
inline LinkCost fit_alpha_beta(std::span<const CostPoint> points) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
