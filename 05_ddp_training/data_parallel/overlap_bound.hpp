// An upper bound on the part of the all-reduces' time that backward can hide.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/stream.hpp"

#include <memory>
#include <span>
#include <vector>

namespace dist {

// All times are in milliseconds since a common starting point. Bucket i is full at full[i]. Its
// all-reduce starts then, or when the previous one ends if that is later, and takes took[i].
// Backward ends at `computed`, and communication after that moment is exposed:
//
//   backward       |   |full[0]   |full[1]   |full[2] = computed
//   all-reduces        [ took[0] ][ took[1] ][ took[2] ]
//                                            ^ exposed: when the last bucket is full, no
//                                              computation is left to hide it
//
// Returns how much of the communication time is not exposed, because backward hides it.
double hideable_ms(std::span<const double> full, std::span<const double> took, double computed);

// One step's all-reduces, kept so that their times can be read after the step. Reading the
// times within the step would mean waiting for the all-reduces.
struct ReducedStep {
  std::vector<Event> full;                   // when each bucket's all-reduce could start
  std::vector<std::shared_ptr<Work>> works;  // in the same order
  bool overlaps = false;                     // whether they ran during backward

  // The sum of the all-reduces' times in milliseconds. Waits until they are done.
  double communication_ms() const;
  // The part of that time that backward could have hidden, given that it ended at `computed`.
  double hideable_ms(const Event& computed) const;
};

}  // namespace dist
