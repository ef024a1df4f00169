// What this file adds: a thread that collects the next batches while the current one is used
// (torch.utils.data.DataLoader with a worker and pin_memory).
// Builds on: batch. data_loader.hpp is the same loop without the thread; the tests compare the
// two.
// Look at: Epoch::collect_or_wait, where the two threads meet, and choose_prefetch, which says
// when reading ahead does not pay off.
#pragma once

#include "04_distributed_sampler/batch.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dist {

// The number of batches to read ahead if the user does not specify one, and the reason for it.
struct PrefetchChoice {
  std::size_t prefetch;
  std::string reason;  // a clause that can follow "because"
};
PrefetchChoice choose_prefetch(const Dataset& dataset, Device device);

class PrefetchLoader {
 public:
  // Delivers the same batches as DataLoader, bit for bit, and collects up to `prefetch` of them
  // in advance. If `prefetch` is 0, there is no thread. The loader holds prefetch + 1 batches
  // in memory, plus one more for a GPU.
  PrefetchLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                 const Stream& stream, std::size_t prefetch = 2, std::size_t parts = 1);
  ~PrefetchLoader();
  PrefetchLoader(const PrefetchLoader&) = delete;
  PrefetchLoader& operator=(const PrefetchLoader&) = delete;

  std::size_t batches(std::size_t samples) const { return plan_.batches(samples); }

  // Like DataLoader::over. Creating a second epoch while the first one exists throws Error,
  // because both would write to the same memory. An epoch must not outlive its loader.
  class Epoch;
  Epoch over(std::vector<std::size_t> indices, std::size_t first_batch = 0);

 private:
  const Dataset& dataset_;
  const Stream& stream_;
  BatchPlan plan_;
  std::size_t prefetch_;
  std::vector<HostBatch> slots_;  // batch k is collected in slot k % slots_.size()
  std::vector<Event> copied_;     // per slot: reached when its copy to the GPU is done
  BatchDelivery delivery_;
  bool in_use_ = false;
};

// One walk over the batches; calling begin() again restarts the walk. An epoch cannot be copied
// or moved. You may leave the loop early: the thread then stops after its current batch.
//
// If a batch is requested before the thread has begun it, the caller collects the batch.
// Without a spare core, the loader therefore falls back to the plain loop automatically, batch
// by batch.
class PrefetchLoader::Epoch {
 public:
  class Iterator {
   public:
    Iterator(Epoch& epoch, std::size_t position) : epoch_(epoch), position_(position) {}
    // Waits for the batch if the thread is collecting it. If the data set threw an exception on
    // either thread, rethrows it once the earlier batches have been delivered.
    const Batch& operator*() const { return epoch_.take(position_); }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return position_ == other.position_; }

   private:
    Epoch& epoch_;
    std::size_t position_;
  };

  Epoch(PrefetchLoader& loader, std::vector<std::size_t> indices, std::size_t first_batch);
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  Iterator begin();
  Iterator end() { return {*this, last_}; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const Batch& take(std::size_t position);
  void collect_or_wait(std::size_t position);
  void collect(std::size_t position);
  void remember(std::exception_ptr failure, std::size_t position);
  void release_slots_before(std::size_t position);
  void read_ahead();  // runs on the thread
  void stop();

  PrefetchLoader& loader_;
  std::vector<std::size_t> indices_;
  std::size_t first_;
  std::size_t last_;
  std::size_t taken_;  // batches before this one have been delivered
  Batch batch_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::size_t next_ = 0;      // the first batch that neither thread has begun
  std::size_t current_ = 0;   // the batch that the thread is collecting, or kNone
  std::size_t released_ = 0;  // slots of batches before this one may be overwritten
  bool stopping_ = false;
  std::exception_ptr failure_;  // the exception that was thrown, or null
  std::size_t failed_ = 0;      // the batch at which it was thrown; the walk ends there
  std::thread thread_;
};

}  // namespace dist
