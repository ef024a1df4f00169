// What this file adds: samples become batches on the device (torch.utils.data.DataLoader with
// num_workers=0). The plain loop: a batch is collected when it is asked for, and the step
// waits. Builds on: batch; the sampler decides which samples, this file only collects them.
// Look at: prefetch_loader.hpp, which gives the same batches from another thread.
#pragma once

#include "04_distributed_sampler/batch.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace dist {

class DataLoader {
 public:
  // Batches of `batch_size` samples on the stream's device, `parts` of them a step; see
  // BatchPlan. `dataset` and `stream` must outlive the loader. Throws Error for a batch size
  // of 0.
  DataLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
             const Stream& stream, std::size_t parts = 1)
      : DataLoader(dataset, BatchPlan(batch_size, drop_last, parts), stream) {}
  DataLoader(const Dataset& dataset, const BatchPlan& plan, const Stream& stream);

  // How many batches `samples` samples make.
  std::size_t batches(std::size_t samples) const { return plan_.batches(samples); }

  // for (const Batch& batch : loader.over(sampler.indices())) ...
  //
  // With `first_batch` the epoch begins there, as if that many batches had been skipped, and
  // nothing of them is read. Throws Error past the end of the epoch.
  class Range;
  Range over(std::vector<std::size_t> indices, std::size_t first_batch = 0);

 private:
  const Batch& collate(std::span<const std::size_t> indices, Batch::Place place);

  const Dataset& dataset_;
  const Stream& stream_;
  BatchPlan plan_;
  std::vector<HostBatch> host_;  // one; two for a GPU, which fetches one while the other fills
  std::vector<Event> copied_;    // of each: its copy to the GPU is done
  std::size_t next_ = 0;         // the one that the next batch goes to
  BatchDelivery delivery_;
  Batch batch_;
};

class DataLoader::Range {
 public:
  class Iterator {
   public:
    Iterator(Range& range, std::size_t position) : range_(range), position_(position) {}
    // Makes the batch: once per step.
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
