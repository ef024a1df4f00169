// How much of the all-reduces backward could hide at best.
#pragma once

#include <span>

namespace dist {

// All times in milliseconds since some common point. Bucket i is full at full[i]; its
// all-reduce starts then, or when the one before it ends, and takes took[i]. Backward ends at
// `computed`, and what runs later than that is exposed:
//
//   backward       |   |full[0]   |full[1]   |full[2] = computed
//   all-reduces        [ took[0] ][ took[1] ][ took[2] ]
//                                            ^ exposed: the last bucket is full when nothing is
//                                              left to hide it behind
//
// The rest of them is the result.
double hideable_ms(std::span<const double> full, std::span<const double> took, double computed);

}  // namespace dist
