// What this file adds: one batch, from collecting its samples to copying it to the device. Both
// loaders (data_loader, prefetch_loader) use these parts; they differ only in when they use
// them.
// Builds on: dataset.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dist {

// Points to the loader's own memory, so it is valid only until the loader makes the next batch.
struct Batch {
  Tensor inputs;                          // (rows, features)
  std::span<const std::int32_t> targets;  // (rows), in the device's memory
  std::size_t rows() const { return targets.size(); }

  // The batch's place in its epoch (BatchPlan). Usually a step has one batch.
  struct Place {
    std::size_t part = 0;        // its number within the step, from 0
    std::size_t parts = 1;       // batches in the step
    std::size_t accumulate = 1;  // batches of the step whose gradients one rank adds up
    bool ends_epoch = false;
    bool ends_step() const { return part + 1 == parts; }
  };
  Place place{};
  double waited_ms = 0;  // time spent collecting it or waiting for it
};

// How an epoch's samples are divided into batches of `size`. The last batch may be smaller;
// `drop_last` leaves it out (this is not the sampler's `drop_last`).
//
// With `parts` above 1, a step takes that many batches of equal size, one for each of the
// ranks that this process simulates (05, virtual_ranks). The list is ordered by step, and
// within a step by part. In the last step, all parts may be smaller by the same number of
// samples, or all are left out. For example, ten samples in batches of 2 for two parts, a and
// b, of 5 samples each:
//
//   list    a a | b b | a a | b b | a | b
//           step 0      step 1      step 2
//
// With `accumulate` above 1, a step takes that many batches of each part in turn; the epoch's
// last step takes what remains.
struct BatchPlan {
  std::size_t size;
  bool drop_last;
  std::size_t parts;
  std::size_t accumulate;

  // Throws Error if any of the numbers is 0.
  BatchPlan(std::size_t batch_size, bool drop, std::size_t parts_of_step = 1,
            std::size_t batches_of_part = 1);
  // The number of batches for `samples` samples, a multiple of `parts`. Throws Error if
  // `samples` is not a multiple of `parts`.
  std::size_t batches(std::size_t samples) const;
  // The samples of batch `position`, which must be less than batches(indices.size()).
  std::span<const std::size_t> samples_of(std::span<const std::size_t> indices,
                                          std::size_t position) const;
  // The place of batch `position` in an epoch of `batches` batches.
  Batch::Place place_of(std::size_t position, std::size_t batches) const;
  // The number of steps for `samples` samples.
  std::size_t steps(std::size_t samples) const;
  // Throws Error if an epoch of `samples` samples has fewer than `first_batch` batches.
  void check_start(std::size_t first_batch, std::size_t samples) const;
};

// A batch in host memory. For a GPU the memory is pinned, so that the GPU can copy it while the
// host continues.
class HostBatch {
 public:
  HostBatch(std::size_t most_rows, std::size_t features, Device destination);

  // Reads the samples one by one. Calls neither MPI nor CUDA, so any thread may call it.
  void collect(const Dataset& dataset, std::span<const std::size_t> indices);
  // Refers to what was collected last, without copying it.
  Batch batch() const;

 private:
  Tensor inputs_;  // on the CPU
  Buffer<std::int32_t> targets_;
  std::size_t rows_ = 0;
};

// Delivers a collected batch to the stream's device: unchanged on the CPU, and as a copy queued
// on the stream for a GPU. `stream` must outlive this object.
class BatchDelivery {
 public:
  BatchDelivery(std::size_t most_rows, std::size_t features, const Stream& stream);

  // On a GPU, the result is valid for work queued on the stream before the next call, and the
  // host memory of `collected` must not change until the copy is done.
  Batch deliver(const Batch& collected);

 private:
  const Stream& stream_;
  Tensor inputs_;  // on the GPU; empty without one
  Buffer<std::int32_t> targets_;
};

}  // namespace dist
