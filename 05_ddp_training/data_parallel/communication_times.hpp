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
// Backward ends at `computed`, and communication after that moment is exposed:
//
//   backward       |   |full[0]   |full[1]   |full[2] = computed
//   all-reduces        [ took[0] ][ took[1] ][ took[2] ]
//                                            ^ exposed: when the last bucket is full, no
//                                              computation is left to hide it
//
// Returns how much of the communication time is not exposed, because backward hides it. This is
// an upper bound: the all-reduces may start late.
inline double hideable_ms(std::span<const double> full, std::span<const double> took,
                          double computed) {
  double total = 0;
  double end = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    end = (i == 0 ? full[i] : std::max(end, full[i])) + took[i];
    total += took[i];
  }
  return total - std::max(0.0, end - computed);
}

// In milliseconds.
struct CommunicationTimes {
  double total = 0;     // summed over the step's collectives
  double exposed = 0;   // the part of `total` during which nothing was computed
  double hideable = 0;  // the part that backward could have hidden
};

// What one step's backward pass sent.
struct Communication {
  bool overlaps = false;  // whether the collectives ran during backward
  std::vector<std::shared_ptr<Work>> works;
  std::vector<Event> full;  // when each of them could start; empty: only after backward
  Event computed;           // the end of backward's own work
  Event averaged;           // the end of the wait for all works

  // Call it when the step is done.
  CommunicationTimes times() const {
    CommunicationTimes times;
    std::vector<double> took;
    for (const auto& work : works) times.total += took.emplace_back(work->elapsed_ms());
    // Communication without its own thread or stream runs within backward and lengthens it.
    times.exposed = overlaps ? elapsed_ms(computed, averaged) : times.total;
    if (full.empty()) return times;
    // Measure times from the moment when the first bucket was full. Subtract the time of
    // all-reduces that delay backward, to find out how long backward alone would have taken.
    std::vector<double> since;
    double held_up = 0;
    for (std::size_t i = 0; i < full.size(); ++i) {
      since.push_back(elapsed_ms(full.front(), full[i]) - held_up);
      if (!overlaps) held_up += took[i];
    }
    times.hideable = hideable_ms(since, took, elapsed_ms(full.front(), computed) - held_up);
    return times;
  }
};

}  // namespace dist
