#include "common/stream.hpp"

#include "common/buffer.hpp"
#include "common/check_cuda.hpp"
#include "common/watch.hpp"

#include <mutex>
#include <vector>

namespace dist {

#if DIST_WITH_CUDA

// A stream's events that are not in use, because creating one takes longer. Threads share them:
// the one that records an event may not be the one that gives it back.
struct EventPool {
  std::mutex mutex;
  std::vector<cudaEvent_t> free;

  ~EventPool() {
    for (cudaEvent_t event : free) cudaEventDestroy(event);
  }
  cudaEvent_t take(Device device) {
    const std::lock_guard lock(mutex);
    if (free.empty()) {
      const CurrentDevice current(device);
      cudaEvent_t made = nullptr;
      CUDA_CHECK(cudaEventCreate(&made));
      free.push_back(made);
    }
    const cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  // Waits that were queued for the event are unaffected if it is recorded again.
  void give_back(cudaEvent_t event) {
    const std::lock_guard lock(mutex);
    free.push_back(event);
  }
};

struct Stream::CudaState {
  cudaStream_t stream = nullptr;
  std::shared_ptr<EventPool> events = std::make_shared<EventPool>();
  std::shared_ptr<void> companion;
  Buffer<char> staging;

  // Non-blocking: a wait for the legacy default stream would be one for unrelated work, too.
  CudaState(Device device, Priority priority) {
    const CurrentDevice current(device);
    int normal = 0, high = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&normal, &high));
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            priority == Priority::high ? high : normal));
  }
  ~CudaState() {
    companion.reset();
    cudaStreamDestroy(stream);
  }
  CudaState(CudaState&&) = delete;
};

#else

struct Stream::CudaState {
  CUstream_st* stream = nullptr;
  std::shared_ptr<void> companion;
  CudaState(Device, Priority) {}
};

#endif

GpuWait::GpuWait() {
  if (const WatchTable* const watch = watch_table()) {
    watch->begin_wait("a wait for its GPU", MPI_COMM_NULL, WaitScope::kAllOthers);
  }
  ++gpu_waits;
  gpu_wait_began = std::chrono::steady_clock::now().time_since_epoch().count();
}

GpuWait::~GpuWait() {
  gpu_wait_began = 0;
  if (const WatchTable* const watch = watch_table()) watch->end_wait();
}

Stream::Stream(Device device, int threads, Priority priority)
    : device_(device), threads_(threads) {
  if (!device.is_cpu()) cuda_ = std::make_shared<CudaState>(device, priority);
}

void Event::synchronize() const {
#if DIST_WITH_CUDA
  if (!event_) return;
  const GpuWait wait;
  CUDA_CHECK(cudaEventSynchronize(event_.get()));
#endif
}

void Stream::synchronize() const {
#if DIST_WITH_CUDA
  if (!cuda_) return;
  const GpuWait wait;
  CUDA_CHECK(cudaStreamSynchronize(cuda_->stream));
#endif
}

void Stream::wait([[maybe_unused]] const Event& event) const {
#if DIST_WITH_CUDA
  if (cuda_ && event.get() != nullptr) {
    CUDA_CHECK(cudaStreamWaitEvent(cuda_->stream, event.get(), 0));
  }
#endif
}

Event Stream::record_event() const {
  Event event;
#if DIST_WITH_CUDA
  if (cuda_) {
    event.event_ = {cuda_->events->take(device_),
                    [pool = cuda_->events](cudaEvent_t unused) { pool->give_back(unused); }};
    CUDA_CHECK(cudaEventRecord(event.event_.get(), cuda_->stream));
  }
#endif
  event.host_time_ = std::chrono::steady_clock::now();
  return event;
}

void* Stream::staging([[maybe_unused]] std::size_t bytes) const {
#if DIST_WITH_CUDA
  if (cuda_) {
    if (cuda_->staging.size() < bytes) cuda_->staging = {bytes, device_, Memory::pinned};
    return cuda_->staging.data();
  }
#endif
  throw Error("a CPU stream needs no staging memory: its tensors are in host memory");
}

CUstream_st* Stream::get() const {
  return cuda_ ? cuda_->stream : nullptr;
}

std::shared_ptr<void>& Stream::companion() const {
  return cuda_ ? cuda_->companion : cpu_companion_;
}

double elapsed_ms(const Event& begin, const Event& end) {
#if DIST_WITH_CUDA
  if (begin.get() != nullptr && end.get() != nullptr) {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return milliseconds;
  }
#endif
  return std::chrono::duration<double, std::milli>(end.host_time() - begin.host_time()).count();
}

}  // namespace dist
