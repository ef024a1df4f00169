// What this file adds: a loader that makes batches on the device, on request, while the step
// waits (torch.utils.data.DataLoader with num_workers=0).
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "04_distributed_sampler/dataset.hpp"
#include "common/buffer.hpp"
#include "common/stream.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace dist {

class DataLoader {
 public:
  // Makes batches of `batch_size` samples on the stream's device. `dataset` and `stream` must
  // outlive the loader. Throws Error if `batch_size` is 0.
  DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
             const Stream& stream)
      : DataLoader(dataset, BatchPlan(batch_size, drop_last), stream) {}
  DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream);

  // The number of batches for `samples` samples.
  std::size_t batches(std::size_t samples) const { return plan_.batches(samples); }

  // for (const Batch& batch : loader.over(sampler.indices())) ...
  //
  // The `&` refuses DataLoader(...).over(...): before C++23, the loop would run after that
  // loader is gone.
  struct Range;
  Range over(const std::vector<std::size_t>& indices) &;
  // Makes these batches (torch's batch_sampler). Throws Error if one exceeds `batch_size`.
  Range over(std::vector<BatchSamples> batches) &;

 private:
  // The inputs of `batch_size` samples, then the targets, so that one copy moves both.
  struct BatchMemory {
    std::shared_ptr<void> memory;
    Event free{};  // when what was here last has been copied elsewhere
  };

  const Batch& collate(const BatchSamples& samples);
  // GPU only: pinned memory to collect the next batch in, and the copies from there to memory_.
  BatchMemory& next_on_host();
  void send(BatchMemory& collected);

  const Dataset& dataset_;
  const Stream& stream_;
  BatchPlan plan_;
  std::size_t targets_, input_bytes_, bytes_;  // per sample; of a BatchMemory
  // What the step gets, on the stream's device and always at the same address.
  std::shared_ptr<void> memory_;
  Tensor inputs_;
  Batch batch_;

  // For a GPU: batches wait on the host, arrive on the GPU through a stream of their own while
  // the GPU computes with earlier batches, and are then moved to memory_.
  Stream copies_;
  std::vector<BatchMemory> host_;      // a half is filled while the other is copied
  std::vector<BatchMemory> arrivals_;  // two: one arrives while the other is moved on
  std::size_t next_ = 0, next_arrival_ = 0;
};

struct DataLoader::Range {
  struct Iterator {
    DataLoader& loader;
    const BatchSamples* samples;

    // Makes the batch, so dereference the iterator only once per step.
    const Batch& operator*() const { return loader.collate(*samples); }
    void operator++() { ++samples; }
    bool operator==(const Iterator& other) const { return samples == other.samples; }
  };

  DataLoader& loader;
  std::vector<BatchSamples> batches;

  Iterator begin() const { return {loader, batches.data()}; }
  Iterator end() const { return {loader, batches.data() + batches.size()}; }
};

}  // namespace dist
