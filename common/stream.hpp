// The order in which a device does its work: a queue (Stream) and a mark in it (Event).
//
// On CUDA, calls that take a stream only queue work and return. On the CPU a stream is a null
// object: the work is done when the call returns, and waiting is free. Code that is right on
// CUDA is therefore right on the CPU.
#pragma once

#include "common/device.hpp"

#include <chrono>
#include <memory>

struct CUstream_st;  // what cudaStream_t points to
struct CUevent_st;   // what cudaEvent_t points to

namespace dist {

// A point in a stream. Move-only.
class Event {
 public:
  CUevent_st* get() const { return event_.get(); }  // null on the CPU
  std::chrono::steady_clock::time_point host_time() const { return host_time_; }

  // The host waits until the work before this mark is done. Returns at once for an event that
  // was never recorded.
  void synchronize() const;

 private:
  friend class Stream;
  struct Destroy {
    void operator()(CUevent_st* event) const;
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
  std::chrono::steady_clock::time_point host_time_;
};

// An ordered queue of work on one device. Move-only. One operation on it may use up to
// `threads` CPU threads.
class Stream {
 public:
  explicit Stream(Device device, int threads = 1);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  Device device() const { return device_; }
  int threads() const { return threads_; }

  // The host waits until all work queued so far is done.
  void synchronize() const;
  // Work queued from now on starts after `event`; the host does not wait.
  void wait(const Event& event) const;
  // Marks the work queued so far.
  Event record_event() const;

  // Pinned host memory of at least `bytes`, for copies to and from this stream's GPU. It is
  // kept, because allocating it for every message would take longer than the message. Only one
  // user at a time.
  void* staging(std::size_t bytes) const;

  CUstream_st* get() const;  // null on the CPU
  // What a library keeps for a GPU's stream as long as the stream lives, such as gemm's cuBLAS
  // handle. Empty at first.
  std::shared_ptr<void>& companion() const;

 private:
  struct CudaState;
  Device device_;
  int threads_ = 1;
  std::unique_ptr<CudaState> cuda_;
};

// Milliseconds from `begin` to `end`, both of which must be done (synchronize first).
double elapsed_ms(const Event& begin, const Event& end);

}  // namespace dist
