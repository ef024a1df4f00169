// What this file adds: a batch, and the division of an epoch into batches and steps.
#pragma once

#include "common/check.hpp"
#include "common/tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {

// A batch points to its loader's memory, so it is valid only until the loader makes the next.
struct Batch {
  Tensor inputs;                          // (rows, features), a row per sample
  std::span<const std::int32_t> targets;  // (rows, targets per sample), in the device's memory
  std::size_t rows() const { return inputs.dim(0); }

  // The batch's place in its epoch. Usually, a step has only one batch.
  struct Place {
    std::size_t part = 0;        // its number within the step, from 0
    std::size_t parts = 1;       // batches that this process computes in the step
    std::size_t accumulate = 1;  // those of one rank, whose gradients it averages: fewer only
                                 // if the process simulates several ranks (--deterministic)
    bool ends_epoch = false;
    bool ends_step() const { return part + 1 == parts; }
  };
  Place place{};
};

// The samples of a batch, and its place in its epoch.
struct BatchSamples {
  std::vector<std::size_t> indices;
  Batch::Place place{};
};

// Divides an epoch's samples into batches of `size` samples (torch.utils.data.BatchSampler).
// The last batch may be smaller; `drop_last` (not the sampler's option) leaves it out. A step
// takes `accumulate` batches, and the epoch's last step takes those that remain.
struct BatchPlan {
  std::size_t size;
  bool drop_last;
  std::size_t accumulate;

  // Throws Error if a number is 0.
  BatchPlan(std::size_t batch_size, bool drop, std::size_t batches_per_step = 1)
      : size(batch_size), drop_last(drop), accumulate(batches_per_step) {
    if (batch_size == 0) throw Error("DataLoader: the batch size is 0");
    if (batches_per_step == 0) throw Error("DataLoader: a step has no batches");
  }
  // The numbers of batches and of steps for `samples` samples.
  std::size_t batches(std::size_t samples) const {
    return drop_last ? samples / size : (samples + size - 1) / size;
  }
  std::size_t steps(std::size_t samples) const {
    return (batches(samples) + accumulate - 1) / accumulate;
  }
  // The batches, in order.
  std::vector<BatchSamples> divide(std::span<const std::size_t> indices) const {
    const std::size_t count = batches(indices.size());
    std::vector<BatchSamples> all(count);
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t part = b % accumulate;
      const std::size_t parts = std::min(accumulate, count - (b - part));
      const auto rest = indices.subspan(b * size);
      const auto mine = rest.first(std::min(size, rest.size()));
      all[b].indices.assign(mine.begin(), mine.end());
      all[b].place = {part, parts, /*accumulate=*/parts, /*ends_epoch=*/b + 1 == count};
    }
    return all;
  }
};

}  // namespace dist
