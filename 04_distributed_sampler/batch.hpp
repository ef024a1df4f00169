// What this file adds: one batch, where it is collected and how it reaches the device. Both
// loaders (data_loader, prefetch_loader) are made of these parts and differ only in when they
// use them.
// Builds on: dataset.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace dist {

// Lies in the loader's own memory: valid until the loader makes the next batch.
struct Batch {
  Tensor inputs;                          // (rows, features)
  std::span<const std::int32_t> targets;  // (rows), in the device's memory
  std::size_t rows() const { return targets.size(); }

  // Where the batch stands in its epoch (BatchPlan). Usually a batch is a step.
  struct Place {
    std::size_t part = 0;        // of its step, from 0 ...
    std::size_t parts = 1;       // ... and how many batches the step has
    std::size_t accumulate = 1;  // of them that one rank adds up
    bool ends_epoch = false;
    bool ends_step() const { return part + 1 == parts; }
  };
  Place place{};
  double waited_ms = 0;  // what collecting it, or waiting for it, took
};

// How an epoch's samples are cut into batches of `size`. The last batch may be smaller, or is
// left out with `drop_last` (a different switch from the sampler's).
//
// With `parts` above 1 a step takes that many batches of equal size, one for each of several
// ranks that this process plays (05, virtual_ranks). The list then holds step after step, and
// within a step part after part. The parts of the last step may be smaller, all of them alike,
// or are left out together. Ten samples in batches of 2, for two parts, A and B, of 5 each:
//
//   list    a a | b b | a a | b b | a | b
//           step 0      step 1      step 2
//
// With `accumulate` above 1 a step takes that many batches of each part, one after the other;
// the epoch's last step takes those that are left.
struct BatchPlan {
  std::size_t size;
  bool drop_last;
  std::size_t parts;
  std::size_t accumulate;

  // Throws Error for a size of 0, or no parts.
  BatchPlan(std::size_t batch_size, bool drop, std::size_t parts_of_step = 1,
            std::size_t batches_of_part = 1);
  // How many batches `samples` samples make: a multiple of `parts`. Throws Error if the samples
  // do not divide into the parts.
  std::size_t batches(std::size_t samples) const;
  // The samples of batch `position`, which is less than batches(indices.size()).
  std::span<const std::size_t> samples_of(std::span<const std::size_t> indices,
                                          std::size_t position) const;
  // Where batch `position` stands in an epoch of `batches` batches.
  Batch::Place place_of(std::size_t position, std::size_t batches) const;
  // How many steps `samples` samples make.
  std::size_t steps(std::size_t samples) const;
  // Throws Error when an epoch of `samples` samples has no `first_batch` batches to skip.
  void check_start(std::size_t first_batch, std::size_t samples) const;
};

// A batch in host memory; pinned if it is on its way to a GPU, which can then fetch it by
// itself while the host goes on.
class HostBatch {
 public:
  HostBatch(std::size_t most_rows, std::size_t features, Device destination);

  // Reads the samples, one after the other. Calls neither MPI nor CUDA: any thread may.
  void collect(const Dataset& dataset, std::span<const std::size_t> indices);
  // A window on what was collected last.
  Batch batch() const;

 private:
  Tensor inputs_;  // on the CPU
  Buffer<std::int32_t> targets_;
  std::size_t rows_ = 0;
};

// Hands a collected batch to the stream's device: on the CPU as it is, on a GPU as a copy that
// is queued on the stream. `stream` must outlive it.
class BatchDelivery {
 public:
  BatchDelivery(std::size_t most_rows, std::size_t features, const Stream& stream);

  // On a GPU the result is valid for work queued on the stream before the next call, and the
  // host memory of `collected` must stay as it is until the copy is done.
  Batch deliver(const Batch& collected);

 private:
  const Stream& stream_;
  Tensor inputs_;  // on the GPU; empty without one
  Buffer<std::int32_t> targets_;
};

}  // namespace dist
