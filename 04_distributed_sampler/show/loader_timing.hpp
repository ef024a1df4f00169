// What this file adds: measurements of how long a step waits for its batch, and of how long the
// wait and the step take together, with the plain loop and with a thread that reads ahead.
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
  double total_ns = 0;  // wait and step together; the time that matters in the end
};

struct LoaderTiming {
  WalkTime plain;
  WalkTime prefetch;
  bool same_bits = false;  // whether both loaders gave the same batches
};

// Runs on the CPU and sends no messages. In each of `rounds` rounds, walks over `indices` once
// with the plain loop and once with the thread. A step reads its batch `passes` times. The call
// to `before_walk` is not timed.
LoaderTiming time_loaders(const Dataset& dataset, const std::vector<std::size_t>& indices,
                          std::size_t batch_size, std::size_t passes, int rounds,
                          const std::function<void()>& before_walk);

}  // namespace dist
