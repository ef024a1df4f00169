// What this file adds: one batch, from collecting its samples to copying it to the device.
// Builds on: dataset.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/buffer.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// A batch points to its loader's memory, so it is valid only until the loader makes the next
// one.
struct Batch {
  Tensor inputs;                          // (rows, features)
  std::span<const std::int32_t> targets;  // (rows), in the device's memory
  std::size_t rows() const { return targets.size(); }

  // The batch's place in its epoch (BatchPlan). Usually, a step has only one batch.
  struct Place {
    std::size_t part = 0;        // its number within the step, from 0
    std::size_t parts = 1;       // batches in the step
    std::size_t accumulate = 1;  // batches whose gradients one rank adds up in the step
    bool ends_epoch = false;
    bool ends_step() const { return part + 1 == parts; }
  };
  Place place{};
  double waited_ms = 0;  // time spent collecting the batch or waiting for it
};

// Divides an epoch's samples into batches of `size` samples. The last batch may be smaller;
// `drop_last` leaves it out. (The sampler's `drop_last` is a different option.)
//
// If `parts` is above 1, a step takes `parts` batches of equal size, one for each of the
// ranks that this process simulates (05, virtual_ranks). The list is ordered by step, and
// within a step by part. In the last step, the batches may all be smaller by the same number of
// samples, or may all be left out. For example, this is the list for ten samples in batches of
// 2 and two parts, a and b, of 5 samples each:
//
//   list    a a | b b | a a | b b | a | b
//           step 0      step 1      step 2
//
// If `accumulate` is above 1, a step takes `accumulate` batches of each part in turn, and the
// epoch's last step takes the remaining batches.
struct BatchPlan {
  std::size_t size;
  bool drop_last;
  std::size_t parts;
  std::size_t accumulate;

  // Throws Error if any of the numbers is 0.
  BatchPlan(std::size_t batch_size, bool drop, std::size_t parts_of_step = 1,
            std::size_t batches_of_part = 1);
  // Returns the number of batches for `samples` samples; the result is a multiple of `parts`.
  // Throws Error if `samples` is not a multiple of `parts`.
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

// A batch in host memory. For a GPU the memory is pinned, so that the GPU can copy the batch
// while the host continues.
class HostBatch {
 public:
  HostBatch(std::size_t most_rows, std::size_t features, Device destination);

  // Reads the samples one by one. Calls neither MPI nor CUDA, so any thread may call it.
  void collect(const Dataset& dataset, std::span<const std::size_t> indices);
  // Returns a view of the samples that were collected last, without copying them.
  Batch batch() const;

 private:
  Tensor inputs_;  // on the CPU
  Buffer<std::int32_t> targets_;
  std::size_t rows_ = 0;
};

// Delivers a collected batch to the stream's device. A CPU gets the batch itself; a GPU gets a
// copy, which travels while the GPU computes with earlier batches. `stream` must outlive this
// object.
class BatchDelivery {
 public:
  BatchDelivery(std::size_t most_rows, std::size_t features, const Stream& stream);

  // On a GPU, the result is valid for work queued on the stream before the next call, and is
  // always at the same address. The host memory of `collected` must not change until `copied`
  // is reached.
  Batch deliver(const Batch& collected, Event& copied);

 private:
  // On the GPU; all empty if the device is the CPU.
  struct Slot {
    Tensor inputs;
    Buffer<std::int32_t> targets;
    Event taken;  // when its last batch was moved on
  };
  const Stream& stream_;
  std::optional<Stream> copies_;
  std::vector<Slot> arrivals_;  // two: one arrives while the other is moved on
  Slot batch_;                  // what the caller gets
  std::size_t next_ = 0;
};

}  // namespace dist
