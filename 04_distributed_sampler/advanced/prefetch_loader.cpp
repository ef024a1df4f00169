// Two sides, one ring of slots. With prefetch 2 on the CPU there are three:
//
//   batch   0     1     2     3     4
//   slot    0     1     2     0     1
//                 |     |     +---------- not yet: the step may still use its slot's batch 0
//                 ... |     +---------------- the thread is at it
//                 +---------------------- ready
//           +---------------------------- ... until it asks for batch 1
//
// The thread reads files and writes host memory, and no more: all MPI and CUDA calls stay with
// the thread that uses the batches. So MPI_THREAD_FUNNELED is enough, and no second thread has
// to be told which GPU is current.
#include "04_distributed_sampler/advanced/prefetch_loader.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <system_error>
#include <utility>

namespace dist {

PrefetchChoice choose_prefetch(const Dataset& dataset, Device device) {
  constexpr std::size_t kAhead = 2;  // one ready, one being collected; PyTorch's default too
  if (!device.is_cpu()) return {kAhead, "the GPU computes while the host collects"};
  if (dataset.reads_file()) return {kAhead, "the thread waits for the disk, the step does not"};
  // Measured by --act loader: some microseconds of a step, and handing a batch from core to
  // core takes as many. Where every core computes, the thread takes turns with the step.
  return {0, "to collect from memory costs no more than to hand over"};
}

PrefetchLoader::PrefetchLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                               const Stream& stream, std::size_t prefetch, std::size_t parts)
    : dataset_(dataset),
      stream_(stream),
      plan_(batch_size, drop_last, parts),
      prefetch_(prefetch),
      delivery_(batch_size, dataset.features(), stream) {
  // One in use, `prefetch` ahead of it; and one whose copy may still be under way to the GPU.
  const std::size_t slots = prefetch + (stream.device().is_cpu() ? 1 : 2);
  for (std::size_t i = 0; i < slots; ++i) {
    slots_.emplace_back(batch_size, dataset.features(), stream.device());
  }
  copied_.resize(slots);
}

PrefetchLoader::~PrefetchLoader() {
  // Pinned memory must not go while a copy reads it. An error here has been, or will be, thrown
  // by the stream's next call.
  try {
    for (const Event& event : copied_) event.synchronize();
  } catch (const Error&) {
    return;
  }
}

PrefetchLoader::Epoch PrefetchLoader::over(std::vector<std::size_t> indices,
                                           std::size_t first_batch) {
  return {*this, std::move(indices), first_batch};
}

PrefetchLoader::Epoch::Epoch(PrefetchLoader& loader, std::vector<std::size_t> indices,
                             std::size_t first_batch)
    : loader_(loader),
      indices_(std::move(indices)),
      first_(first_batch),
      last_(loader.plan_.batches(indices_.size())),
      taken_(first_batch) {
  loader.plan_.check_start(first_batch, indices_.size());
  if (loader.in_use_) throw Error("PrefetchLoader: another epoch of this loader is not over");
  loader.in_use_ = true;
}

PrefetchLoader::Epoch::~Epoch() {
  stop();
  loader_.in_use_ = false;
}

void PrefetchLoader::Epoch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

PrefetchLoader::Epoch::Iterator PrefetchLoader::Epoch::begin() {
  stop();
  // An earlier walk may have been left with its copies under way.
  for (const Event& event : loader_.copied_) event.synchronize();
  taken_ = next_ = released_ = first_;
  current_ = kNone;
  stopping_ = false;
  failure_ = nullptr;
  if (loader_.prefetch_ > 0 && first_ < last_) {
    try {
      thread_ = std::thread([this] { read_ahead(); });
    } catch (const std::system_error& error) {
      throw Error(fmt::format("DataLoader: no thread to read ahead with: {}", error.what()));
    }
  }
  return {*this, first_};
}

void PrefetchLoader::Epoch::collect(std::size_t position) {
  loader_.slots_[position % loader_.slots_.size()].collect(
      loader_.dataset_, loader_.plan_.samples_of(indices_, position));
}

void PrefetchLoader::Epoch::read_ahead() {
  std::unique_lock lock(mutex_);
  while (!failure_) {
    changed_.wait(lock, [&] {
      return stopping_ || next_ == last_ || next_ < released_ + loader_.slots_.size();
    });
    if (stopping_ || next_ == last_) return;
    current_ = next_++;
    lock.unlock();  // nobody else touches this slot now
    std::exception_ptr failure;
    try {
      collect(current_);
    } catch (...) {
      // Thrown from here it would end the process: it is kept for whoever takes the batch.
      failure = std::current_exception();
    }
    lock.lock();
    const std::size_t done = std::exchange(current_, kNone);
    if (failure) remember(failure, done);
    changed_.notify_one();
  }
}

// With the lock held. Two threads can fail at two batches: the walk ends at the first.
void PrefetchLoader::Epoch::remember(std::exception_ptr failure, std::size_t position) {
  if (failure_ && failed_ < position) return;
  failure_ = std::move(failure);
  failed_ = position;
}

void PrefetchLoader::Epoch::collect_or_wait(std::size_t position) {
  {
    std::unique_lock lock(mutex_);
    if (next_ > position) {
      changed_.wait(lock, [&] { return current_ != position; });
      if (failure_ && failed_ <= position) std::rethrow_exception(failure_);
      return;
    }
    next_ = position + 1;  // the thread goes on behind this one
  }
  try {
    collect(position);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    remember(std::current_exception(), position);
    throw;
  }
}

// The step is at `position`: what it used before may be overwritten.
void PrefetchLoader::Epoch::release_slots_before(std::size_t position) {
  std::size_t free = position;
  if (!loader_.stream_.device().is_cpu() && position > first_) {
    // The GPU may not have fetched the batch before yet, so its slot is left alone; the one
    // before that has had a whole step. Without this wait a batch would be overwritten by a
    // later one on its way to the GPU, now and then.
    free = position - 1;
    if (free > first_) loader_.copied_[(free - 1) % loader_.slots_.size()].synchronize();
  }
  {
    const std::lock_guard lock(mutex_);
    released_ = free;
  }
  changed_.notify_one();
}

const Batch& PrefetchLoader::Epoch::take(std::size_t position) {
  if (position < taken_) return batch_;  // the same batch, looked at again
  release_slots_before(position);
  collect_or_wait(position);
  const std::size_t slot = position % loader_.slots_.size();
  batch_ = loader_.delivery_.deliver(loader_.slots_[slot].batch());
  if (!loader_.stream_.device().is_cpu()) {
    loader_.copied_[slot] = loader_.stream_.record_event();
  }
  taken_ = position + 1;
  return batch_;
}

}  // namespace dist
