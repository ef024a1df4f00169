// What this file adds: it measures how long a step waits for its batch, and how long wait and
// step take together, with the plain loop and with a thread that reads ahead.
// Builds on: data_loader, prefetch_loader.
#pragma once

#include "04_distributed_sampler/dataset.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace dist {

// Times per batch: the mean over one walk, or the median of several such means.
struct WalkTime {
  double wait_ns = 0;   // until the batch is ready
  double total_ns = 0;  // wait and step; this is what counts in the end
};

struct LoaderTiming {
  WalkTime plain;
  WalkTime prefetch;
  bool same_bits = false;  // both gave the same batches
};

// Runs on the CPU and sends no messages. Walks over `indices` `rounds` times, alternating
// between the plain loop and the thread. A step reads its batch `passes` times. `before_walk`
// is not timed.
LoaderTiming time_loaders(const Dataset& dataset, const std::vector<std::size_t>& indices,
                          std::size_t batch_size, std::size_t passes, int rounds,
                          const std::function<void()>& before_walk);

}  // namespace dist
