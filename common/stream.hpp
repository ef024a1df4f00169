// The order in which a device does its work: a queue (Stream) and a mark in it (Event).
//
// On CUDA, calls that take a stream only queue work and return. On the CPU a stream is a null
// object: the work is done when the call returns, and waiting costs nothing. Code that is
// correct on CUDA is therefore correct on the CPU.
#pragma once

#include "common/device.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

struct CUstream_st;  // what cudaStream_t points to
struct CUevent_st;   // what cudaEvent_t points to

namespace dist {

// Calls of CUDA by all threads of this process that make the host wait for a GPU, and those
// that allocate memory. A fast training step makes none.
inline std::atomic<std::uint64_t> gpu_waits, gpu_allocations;

// When the host began its last wait for a GPU, on the steady clock; 0 if that wait is over.
// Queued work may wait for a rank that never arrives: nccl_watchdog (01) ends such a wait.
inline std::atomic<std::chrono::steady_clock::rep> gpu_wait_began;

// A wait of the host for a GPU. The work that it waits for may contain a call of NCCL, and thus
// wait for other ranks, which nobody outside NCCL can tell. So each is a wait for the watch.
class GpuWait {
 public:
  GpuWait();
  ~GpuWait();
  GpuWait(GpuWait&&) = delete;
};

// A point in a stream. Copies are the same point.
class Event {
 public:
  CUevent_st* get() const { return event_.get(); }  // null on the CPU
  std::chrono::steady_clock::time_point host_time() const { return host_time_; }

  // Makes the host wait until the work before this mark is done, if it was ever recorded.
  void synchronize() const;

 private:
  friend class Stream;
  std::shared_ptr<CUevent_st> event_;
  std::chrono::steady_clock::time_point host_time_;
};

// An ordered queue of work on one device. Move-only. On the CPU, an operation may use up to
// `threads` threads. A GPU takes its next thread block from a stream with high priority first.
class Stream {
 public:
  enum class Priority { normal, high };
  explicit Stream(Device device, int threads = 1, Priority priority = Priority::normal);
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  Device device() const { return device_; }
  int threads() const { return threads_; }

  // Makes the host wait until all work queued so far is done.
  void synchronize() const;
  // Work queued from now on starts after `event`, if ever recorded; the host does not wait.
  void wait(const Event& event) const;
  // Marks the work queued so far.
  Event record_event() const;

  // At least `bytes` bytes of pinned host memory, for copies to and from this stream's GPU. It
  // is kept, as allocating takes longer than a message. Only one user may hold it at a time.
  void* staging(std::size_t bytes) const;

  CUstream_st* get() const;  // null on the CPU
  // What a library keeps while a stream lives, such as a cuBLAS handle. Empty at first.
  std::shared_ptr<void>& companion() const;

 private:
  struct CudaState;
  Device device_;
  int threads_ = 1;
  std::shared_ptr<CudaState> cuda_;
  mutable std::shared_ptr<void> cpu_companion_;
};

// The milliseconds from `begin` to `end`. Both events must have completed (synchronize first).
double elapsed_ms(const Event& begin, const Event& end);

}  // namespace dist
