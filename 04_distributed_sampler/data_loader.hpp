// What this file adds: a loader that makes batches on the device (torch.utils.data.DataLoader
// with num_workers=0), on request, while the step waits.
// Builds on: batch; the sampler chooses the samples and this file collects them.
#pragma once

#include "04_distributed_sampler/batch.hpp"

#include <cstddef>
#include <utility>
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
  class Range;
  Range over(const std::vector<std::size_t>& indices);
  // Makes these batches instead (torch's batch_sampler). Throws Error if one has more than
  // `batch_size` samples.
  Range over(std::vector<BatchSamples> batches);

 private:
  const Batch& collate(const BatchSamples& samples);

  const Dataset& dataset_;
  const Stream& stream_;
  BatchPlan plan_;
  // One for a CPU. For a GPU, twice `half_`, because a half is filled while the other is
  // copied.
  std::vector<HostBatch> host_;
  std::vector<Event> copied_;  // one per host batch: reached when its copy is done
  std::size_t half_ = 1;
  std::size_t next_ = 0;  // the index in host_ of the next batch
  BatchDelivery delivery_;
  Batch batch_;
};

class DataLoader::Range {
 public:
  class Iterator {
   public:
    Iterator(Range& range, std::size_t position) : range_(range), position_(position) {}
    // Makes the batch, so dereference the iterator only once per step.
    const Batch& operator*() const { return range_.batch(position_); }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return position_ == other.position_; }

   private:
    Range& range_;
    std::size_t position_;
  };

  Range(DataLoader& loader, std::vector<BatchSamples> batches)
      : loader_(loader), batches_(std::move(batches)) {}
  Iterator begin() { return {*this, 0}; }
  Iterator end() { return {*this, batches_.size()}; }

 private:
  const Batch& batch(std::size_t position) { return loader_.collate(batches_[position]); }

  DataLoader& loader_;
  std::vector<BatchSamples> batches_;
};

}  // namespace dist
