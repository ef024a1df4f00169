// What this file adds: how long a step's communication took, and how much of it backward hid or
// could have hidden. The times are read after the step, because reading them within it would
// mean waiting for the all-reduces.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace dist {

// All times are in milliseconds since a common starting point. Bucket i is full at full[i]. Its
// all-reduce starts then, or when the previous one ends if that is later, and takes took[i].
// Backward ends when the last bucket is full, and communication after that moment is exposed:
//
//   backward       |   |full[0]   |full[1]   |full[2]
//   all-reduces        [ took[0] ][ took[1] ][ took[2] ]
//                                            ^ exposed: no computation is left to hide it
//
// Returns how much of the communication time is not exposed, because backward hides it. This is
// an upper bound: the all-reduces may start late.
inline double hideable_ms(std::span<const double> full, std::span<const double> took) {
  double total = 0;
  double end = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    end = std::max(end, full[i]) + took[i];
    total += took[i];
  }
  return total - (end - full.back());
}

struct CommunicationTimes {
  double total = 0;     // in milliseconds, summed over the step's collectives
  double exposed = 0;   // the part of `total` during which nothing was computed
  double hideable = 0;  // the part that backward could have hidden
};

// What one step's backward pass sent.
struct Communication {
  bool overlaps = false;  // whether the collectives ran during backward
  std::vector<std::shared_ptr<Work>> works;
  std::vector<Event> full;  // when each of them could start; empty: only after backward
  Event averaged;           // the end of the wait for all works

  // Call it when the step is done.
  CommunicationTimes times() const {
    CommunicationTimes times;
    std::vector<double> took;
    for (const auto& work : works) times.total += took.emplace_back(work->elapsed_ms());
    // Without its own thread or stream, communication runs within backward and lengthens it.
    times.exposed = overlaps ? elapsed_ms(full.back(), averaged) : times.total;
    if (full.empty()) return times;
    // As if no all-reduce had delayed backward.
    std::vector<double> since;
    double held_up = 0;
    for (std::size_t i = 0; i < full.size(); ++i) {
      since.push_back(elapsed_ms(full.front(), full[i]) - held_up);
      if (!overlaps) held_up += took[i];
    }
    times.hideable = hideable_ms(since, took);
    return times;
  }
};

}  // namespace dist
