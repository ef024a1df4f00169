// A stream is a thread with a queue, and an event is a mark in that queue.
#pragma once

#include "tests/emulation/capture.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

namespace emulation {

// Whose memory an address is: a GPU's number, or kPinned for host memory that any GPU may read
// and write. nullopt: pageable host memory.
constexpr int kPinned = 8;
std::optional<int> owner_of(const void* memory);

// Called once by each stream's thread, which may touch device memory from then on.
void allow_device_memory();

}  // namespace emulation

// One recording of an event. As in CUDA, a wait refers to the recording that it saw: recording
// the event again does not affect earlier waits.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void finish() {
    const std::lock_guard lock(mutex);
    done = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<Recording> latest{};  // null until recorded
  CapturePoint point{};                 // set if it was last recorded in a capturing stream
};

// What one GPU's streams have in common. After a fault, as after CUDA's "illegal address", no
// queued work runs any more, and every call reports the fault.
struct Gpu {
  std::atomic<cudaError_t> fault = cudaSuccess;
};

// The thread owns the stream together with its user, so that work that is queued when the
// stream is destroyed still runs: cudaStreamDestroy does not wait.
struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  CUstream_st(int device_, Gpu& gpu_, unsigned seed)
      : device(device_), gpu(gpu_), random_(seed) {}

  void start() {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  }
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  // The thread ends after the work queued so far.
  void close() {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }
  void synchronize() {
    const auto mark = std::make_shared<Recording>();
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      queue_.push_back([mark] { mark->finish(); });
      changed_.notify_all();
    }
    mark->wait();
  }

  const int device;
  Gpu& gpu;
  CapturePoint point;  // set while the stream captures

 private:
  void run() {
    emulation::allow_device_memory();
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) {
          ended_ = true;
          return;
        }
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      pause();
      work();
      work = nullptr;  // what it owned is free before the stream is idle
      const std::lock_guard lock(mutex_);
      busy_ = false;
    }
  }
  // One piece of work in eight starts up to 200 microseconds late.
  void pause() {
    if (random_() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool closing_ = false;
  bool ended_ = false;
};
