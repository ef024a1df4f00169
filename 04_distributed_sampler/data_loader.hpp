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
  // Makes batches of `batch_size` samples on the stream's device, with `parts` batches per step
  // (BatchPlan). `dataset` and `stream` must outlive the loader. Throws Error if `batch_size`
  // is 0.
  DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
             const Stream& stream, std::size_t parts = 1)
      : DataLoader(dataset, BatchPlan(batch_size, drop_last, parts), stream) {}
  DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream);

  // The number of batches for `samples` samples.
  std::size_t batches(std::size_t samples) const { return plan_.batches(samples); }

  // for (const Batch& batch : loader.over(sampler.indices())) ...
  //
  // Skips the first `first_batch` batches of the epoch without reading them. Throws Error if
  // the epoch has fewer.
  class Range;
  Range over(std::vector<std::size_t> indices, std::size_t first_batch = 0);

 private:
  const Batch& collate(std::span<const std::size_t> indices, Batch::Place place);

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

  Range(DataLoader& loader, std::vector<std::size_t> indices, std::size_t first_batch)
      : loader_(loader), indices_(std::move(indices)), first_(first_batch) {}
  Iterator begin() { return {*this, first_}; }
  Iterator end() { return {*this, loader_.batches(indices_.size())}; }

 private:
  const Batch& batch(std::size_t position) {
    const BatchPlan& plan = loader_.plan_;
    return loader_.collate(plan.samples_of(indices_, position),
                           plan.place_of(position, plan.batches(indices_.size())));
  }

  DataLoader& loader_;
  std::vector<std::size_t> indices_;
  std::size_t first_;
};

}  // namespace dist
