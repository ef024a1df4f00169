// What this file adds: how long a step waits for its batch, and what both together take,
// collected by the plain loop and by a thread that reads ahead.
// Builds on: data_loader, prefetch_loader.
#pragma once

#include "04_distributed_sampler/dataset.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace dist {

// Per batch; the mean over a walk, and of the walks the median.
struct WalkTime {
  double wait_ns = 0;   // until the batch is there
  double total_ns = 0;  // wait and step: what counts in the end
};

struct LoaderTiming {
  WalkTime plain;
  WalkTime prefetch;
  bool same_bits = false;  // both gave the same batches
};

// On the CPU; sends no message. Walks over `indices` with the plain loop and with the thread,
// turn by turn, `rounds` times. A step is `passes` times reading its batch, or nothing for 0.
// `before_walk` is not timed.
LoaderTiming time_loaders(const Dataset& dataset, const std::vector<std::size_t>& indices,
                          std::size_t batch_size, std::size_t passes, int rounds,
                          const std::function<void()>& before_walk);

}  // namespace dist
