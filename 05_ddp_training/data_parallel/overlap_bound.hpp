// How much of the all-reduces backward could hide at best.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/stream.hpp"

#include <memory>
#include <span>
#include <vector>

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

// One step's all-reduces, kept until somebody asks how long they took: that is after the step,
// because nobody waits for them within it.
struct ReducedStep {
  std::vector<Event> full;                   // when each bucket could start
  std::vector<std::shared_ptr<Work>> works;  // in the same order
  bool overlaps = false;                     // they ran beside backward

  // What they took, one after the other, in milliseconds. Waits until they are done.
  double communication_ms() const;
  // The part of that which backward could have hidden, if it ended at `computed`.
  double hideable_ms(const Event& computed) const;
};

}  // namespace dist
