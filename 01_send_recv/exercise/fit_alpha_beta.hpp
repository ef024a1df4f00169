// Exercise: what do messages cost here?
// Check it with ./learn check 1; ./learn hint 1 helps, a little more each time.
#pragma once

#include "01_send_recv/alpha_beta.hpp"  // CostPoint {bytes, seconds}; LinkCost
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// The line  seconds = alpha_s + beta_s_per_byte * bytes  that fits the points best. Only these
// two members of the result matter. Sends nothing.
//
// There are three points or more, of at least three sizes, which span up to six orders of
// magnitude; so do the times, all above zero. They come in any order, and a size may be there
// more than once.
//
// Target:
//   1. If all points lie on a line, that line, to a millionth of every point's time.
//   2. Every size counts alike: if every time is off by up to 10 %, up or down, the line is off
//      by less than 25 % at every size.
//   3. One bad measurement does not spoil it: if ten of eleven points lie on a line and the
//      time of one, whichever, is 50 times too long or too short, the line is off by less than
//      5 % at every size.
inline LinkCost fit_alpha_beta(std::span<const CostPoint> points) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
