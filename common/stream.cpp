#include "common/stream.hpp"

#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/check_cuda.hpp"

namespace dist {

#if DIST_WITH_CUDA

struct Stream::CudaState {
  cudaStream_t stream = nullptr;
  std::shared_ptr<void> companion;
  Buffer<char> staging;

  // The stream is non-blocking: if it waited for the legacy default stream, it would also wait
  // for unrelated work.
  CudaState() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~CudaState() {
    companion.reset();
    cudaStreamDestroy(stream);
  }
  CudaState(const CudaState&) = delete;
  CudaState& operator=(const CudaState&) = delete;
};

void Event::Destroy::operator()(CUevent_st* event) const {
  cudaEventDestroy(event);
}

#else

struct Stream::CudaState {};

void Event::Destroy::operator()(CUevent_st*) const {}

#endif

Stream::Stream(Device device, int threads) : device_(device), threads_(threads) {
  if (!device.is_cpu()) cuda_ = std::make_unique<CudaState>();
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

void Event::synchronize() const {
#if DIST_WITH_CUDA
  if (event_) CUDA_CHECK(cudaEventSynchronize(event_.get()));
#endif
}

void Stream::synchronize() const {
#if DIST_WITH_CUDA
  if (cuda_) CUDA_CHECK(cudaStreamSynchronize(cuda_->stream));
#endif
}

void Stream::wait([[maybe_unused]] const Event& event) const {
#if DIST_WITH_CUDA
  if (cuda_) CUDA_CHECK(cudaStreamWaitEvent(cuda_->stream, event.get(), 0));
#endif
}

Event Stream::record_event() const {
  Event event;
#if DIST_WITH_CUDA
  if (cuda_) {
    cudaEvent_t raw = nullptr;
    CUDA_CHECK(cudaEventCreate(&raw));
    event.event_.reset(raw);
    CUDA_CHECK(cudaEventRecord(raw, cuda_->stream));
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
#if DIST_WITH_CUDA
  if (cuda_) return cuda_->stream;
#endif
  return nullptr;
}

std::shared_ptr<void>& Stream::companion() const {
#if DIST_WITH_CUDA
  if (cuda_) return cuda_->companion;
#endif
  throw Error("a CPU stream has no companion");
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
