// What this file adds: the next batches are collected by a thread of their own while the
// current one is used (torch.utils.data.DataLoader with a worker and pin_memory).
// Builds on: batch; data_loader.hpp is the same loop without the thread, and the oracle.
// Look at: Epoch::collect_or_wait, where the two sides meet, and choose_prefetch, which says
// when reading ahead cannot pay.
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

// How many batches to read ahead where the reader of the course did not say.
struct PrefetchChoice {
  std::size_t prefetch;
  std::string reason;  // half a sentence for the reader
};
PrefetchChoice choose_prefetch(const Dataset& dataset, Device device);

class PrefetchLoader {
 public:
  // As DataLoader's, bit for bit, with up to `prefetch` batches collected in advance. With 0
  // there is no thread. Memory: prefetch + 1 batches, on the way to a GPU one more.
  PrefetchLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                 const Stream& stream, std::size_t prefetch = 2, std::size_t parts = 1);
  ~PrefetchLoader();
  PrefetchLoader(const PrefetchLoader&) = delete;
  PrefetchLoader& operator=(const PrefetchLoader&) = delete;

  std::size_t batches(std::size_t samples) const { return plan_.batches(samples); }

  // As DataLoader::over. One epoch at a time: a second one throws Error while the first lives,
  // because both would write to the same memory. It must not outlive the loader.
  class Epoch;
  Epoch over(std::vector<std::size_t> indices, std::size_t first_batch = 0);

 private:
  const Dataset& dataset_;
  const Stream& stream_;
  BatchPlan plan_;
  std::size_t prefetch_;
  std::vector<HostBatch> slots_;  // batch k is collected in slot k modulo their number
  std::vector<Event> copied_;     // of each slot: its copy to the GPU is done
  BatchDelivery delivery_;
  bool in_use_ = false;
};

// One walk over the batches; walking again starts again. Lives where it is made. Leaving the
// loop early is fine: the thread ends with the batch that it is at.
//
// Data that takes long is not waited for without need: a batch that the thread has not begun
// when it is asked for is collected by the one who asks. So on a machine without a core to
// spare the loader falls back to the plain loop by itself, batch by batch.
class PrefetchLoader::Epoch {
 public:
  class Iterator {
   public:
    Iterator(Epoch& epoch, std::size_t position) : epoch_(epoch), position_(position) {}
    // Waits for the batch if the thread is at it. Throws what the data set threw, on whichever
    // thread; the batches before it have been delivered.
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
  void read_ahead();  // the thread
  void stop();

  PrefetchLoader& loader_;
  std::vector<std::size_t> indices_;
  std::size_t first_;
  std::size_t last_;
  std::size_t taken_;  // batches below this one have been handed out
  Batch batch_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::size_t next_ = 0;      // the first batch that nobody has begun
  std::size_t current_ = 0;   // the thread is at this batch; kNone: at none
  std::size_t released_ = 0;  // the slots of batches below this one may be written again
  bool stopping_ = false;
  std::exception_ptr failure_;  // what was thrown ...
  std::size_t failed_ = 0;      // ... at this batch: the walk ends here
  std::thread thread_;
};

}  // namespace dist
