// Two threads share a ring of slots. With prefetch 2 on the CPU there are three slots:
//
//   batch   0     1     2     3     4
//   slot    0     1     2     0     1
//                 |     |     +---------- waits: the step may still use batch 0 in this slot
//                 |     +---------------- the thread is collecting it
//                 +---------------------- ready for the next step
//
// The reading thread only reads files and writes host memory. All MPI and CUDA calls stay with
// the thread that uses the batches, so MPI_THREAD_FUNNELED is enough and the reading thread
// does not need to know which GPU is current.
#include "04_distributed_sampler/advanced/prefetch_loader.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <system_error>
#include <utility>

namespace dist {

PrefetchChoice choose_prefetch(const Dataset& dataset, Device device) {
  constexpr std::size_t kAhead = 2;  // one ready, one being collected; PyTorch's default too
  if (!device.is_cpu()) return {kAhead, "the GPU computes while the host collects a batch"};
  if (dataset.reads_file()) {
    return {kAhead, "otherwise the step would wait for the disk"};
  }
  // --act loader shows that collecting a batch takes a few microseconds, as does moving it from
  // one core to another. If every core is busy, the thread and the step take turns on one core.
  return {0, "collecting a batch from memory is as cheap as moving it between cores"};
}

PrefetchLoader::PrefetchLoader(const Dataset& dataset, std::size_t batch_size, bool drop_last,
                               const Stream& stream, std::size_t prefetch, std::size_t parts)
    : dataset_(dataset),
      stream_(stream),
      plan_(batch_size, drop_last, parts),
      prefetch_(prefetch),
      delivery_(batch_size, dataset.features(), stream) {
  // One slot is in use, and `prefetch` slots are ahead of it. A GPU needs one more, because the
  // copy of the previous batch may still be in progress.
  const std::size_t slots = prefetch + (stream.device().is_cpu() ? 1 : 2);
  for (std::size_t i = 0; i < slots; ++i) {
    slots_.emplace_back(batch_size, dataset.features(), stream.device());
  }
  copied_.resize(slots);
}

PrefetchLoader::~PrefetchLoader() {
  // Pinned memory must not be freed while a copy is reading it. An error can be ignored here,
  // because a later call on the stream throws it again.
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
  if (loader.in_use_)
    throw Error("PrefetchLoader: an earlier epoch of this loader still exists");
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
  // An earlier walk may have been abandoned while its copies were in progress.
  for (const Event& event : loader_.copied_) event.synchronize();
  taken_ = next_ = released_ = first_;
  current_ = kNone;
  stopping_ = false;
  failure_ = nullptr;
  if (loader_.prefetch_ > 0 && first_ < last_) {
    try {
      thread_ = std::thread([this] { read_ahead(); });
    } catch (const std::system_error& error) {
      throw Error(fmt::format("DataLoader: cannot start a thread: {}", error.what()));
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
    lock.unlock();  // no other thread uses this slot now
    std::exception_ptr failure;
    try {
      collect(current_);
    } catch (...) {
      // An exception that escapes a thread ends the process, so the exception is kept for
      // take().
      failure = std::current_exception();
    }
    lock.lock();
    const std::size_t done = std::exchange(current_, kNone);
    if (failure) remember(failure, done);
    changed_.notify_one();
  }
}

// The caller must hold the lock. The two threads can fail at different batches; the walk ends
// at the earlier of these batches.
void PrefetchLoader::Epoch::remember(std::exception_ptr failure, std::size_t position) {
  if (failure_ && failed_ < position) return;
  failure_ = std::move(failure);
  failed_ = position;
}

// 6. Where the two threads meet: if the reading thread has begun this batch, the caller waits
// for it; otherwise, the caller collects the batch itself.
void PrefetchLoader::Epoch::collect_or_wait(std::size_t position) {
  {
    std::unique_lock lock(mutex_);
    if (next_ > position) {
      changed_.wait(lock, [&] { return current_ != position; });
      if (failure_ && failed_ <= position) std::rethrow_exception(failure_);
      return;
    }
    next_ = position + 1;  // the thread continues after this batch
  }
  try {
    collect(position);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    remember(std::current_exception(), position);
    throw;
  }
}

// The step has reached `position`, so the batches before it may be overwritten.
void PrefetchLoader::Epoch::release_slots_before(std::size_t position) {
  std::size_t free = position;
  if (!loader_.stream_.device().is_cpu() && position > first_) {
    // The GPU may still be copying the previous batch, so its slot is not released yet. The GPU
    // has had a whole step to copy the batch before that one. Without the wait below, a later
    // batch could still overwrite that batch before it has been copied.
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
  if (position < taken_) return batch_;  // the same batch, requested again
  release_slots_before(position);
  collect_or_wait(position);
  const std::size_t slot = position % loader_.slots_.size();
  batch_ = loader_.delivery_.deliver(loader_.slots_[slot].batch(), loader_.copied_[slot]);
  taken_ = position + 1;
  return batch_;
}

}  // namespace dist
