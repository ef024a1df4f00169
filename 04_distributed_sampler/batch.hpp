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

  // The batch's place in its epoch. Usually, a step has only one batch.
  struct Place {
    std::size_t part = 0;        // its number within the step, from 0
    std::size_t parts = 1;       // batches in the step
    std::size_t accumulate = 1;  // batches whose gradients a rank averages in the step
    bool ends_epoch = false;
    bool ends_step() const { return part + 1 == parts; }
  };
  Place place{};
  double waited_ms = 0;  // time spent collecting the batch or waiting for it
};

// The samples of a batch, and its place in its epoch.
struct BatchSamples {
  std::vector<std::size_t> indices;
  Batch::Place place{};
};

// Divides an epoch's samples into batches of `size` samples (torch.utils.data.BatchSampler).
// The last batch may be smaller; `drop_last` leaves it out. (The sampler's `drop_last` is a
// different option.) A step takes `accumulate` batches, and the epoch's last step takes those
// that remain.
struct BatchPlan {
  std::size_t size;
  bool drop_last;
  std::size_t accumulate;

  // Throws Error if a number is 0.
  BatchPlan(std::size_t batch_size, bool drop, std::size_t batches_per_step = 1);
  // The numbers of batches and of steps for `samples` samples.
  std::size_t batches(std::size_t samples) const;
  std::size_t steps(std::size_t samples) const;
  // The batches, in order.
  std::vector<BatchSamples> divide(std::span<const std::size_t> indices) const;
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
