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
#include <optional>

struct CUstream_st;  // what cudaStream_t points to
struct CUevent_st;   // what cudaEvent_t points to

namespace dist {

// Calls of CUDA by all threads of this process that make the host wait for a GPU, and those
// that allocate memory. A fast training step makes none.
inline std::atomic<std::uint64_t> gpu_waits, gpu_allocations;

// A wait of this thread for a GPU. Counted in gpu_waits.
class GpuWait {
 public:
  GpuWait();
  ~GpuWait();
  GpuWait(const GpuWait&) = delete;
  GpuWait& operator=(const GpuWait&) = delete;
};
// When the longest of this process's waits for a GPU began. Queued work may wait for a rank
// that never arrives, so somebody must see to it that the host's waits end (01, nccl_watchdog).
std::optional<std::chrono::steady_clock::time_point> gpu_waits_since();

struct EventPool;  // a stream's events that are not in use, because creating one takes longer

// A point in a stream. Move-only.
class Event {
 public:
  CUevent_st* get() const { return event_.get(); }  // null on the CPU
  std::chrono::steady_clock::time_point host_time() const { return host_time_; }

  // Makes the host wait until the work before this mark is done. Returns at once if the event
  // was never recorded.
  void synchronize() const;

 private:
  friend class Stream;
  struct GiveBack {
    std::shared_ptr<EventPool> pool;
    void operator()(CUevent_st* event) const;
  };
  std::unique_ptr<CUevent_st, GiveBack> event_;
  std::chrono::steady_clock::time_point host_time_;
};

// An ordered queue of work on one device. Move-only. On the CPU, an operation may use up to
// `threads` threads.
class Stream {
 public:
  explicit Stream(Device device, int threads = 1);
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  Device device() const { return device_; }
  int threads() const { return threads_; }

  // Makes the host wait until all work queued so far is done.
  void synchronize() const;
  // Work queued from now on starts after `event`, if it was ever recorded; the host does not
  // wait.
  void wait(const Event& event) const;
  // Marks the work queued so far.
  Event record_event() const;
  // Whether work is being recorded instead of queued (StepGraph).
  bool is_capturing() const;

  // At least `bytes` bytes of pinned host memory, for copies to and from this stream's GPU. The
  // stream keeps the memory, because allocating it for every message would take longer than the
  // message. Only one user may hold it at a time.
  void* staging(std::size_t bytes) const;

  CUstream_st* get() const;  // null on the CPU
  // An object that a library keeps for as long as a GPU's stream lives, such as gemm's cuBLAS
  // handle. Empty at first.
  std::shared_ptr<void>& companion() const;

 private:
  struct CudaState;
  Device device_;
  int threads_ = 1;
  std::shared_ptr<CudaState> cuda_;
};

// The milliseconds from `begin` to `end`. Both events must have completed (synchronize first).
double elapsed_ms(const Event& begin, const Event& end);

}  // namespace dist
