// Look at: the two events of each collective, one before it and one after it.
#include "05_ddp_training/process_group/nccl_process_group.hpp"

#include "02_broadcast/connect_nccl.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/nccl_all_reduce.hpp"
#include "common/check_cuda.hpp"
#include "common/watch.hpp"

#include <utility>

namespace dist {
namespace {

// The work is done when the communication stream has passed `end_`.
class NcclWork : public Work {
 public:
  NcclWork(NcclCommunicator& nccl, Event begin, Event end)
      : nccl_(nccl), begin_(std::move(begin)), end_(std::move(end)) {}

  bool is_completed() override {
#if DIST_WITH_CUDA
    const cudaError_t status = cudaEventQuery(end_.get());
    if (status == cudaErrorNotReady) return false;
    CUDA_CHECK(status);
#endif
    return true;
  }
  void wait(const Stream& consumer) override {
    consumer.wait(end_);
  }
  void synchronize() override {
    nccl_.synchronize(end_);
  }
  double elapsed_ms() override {
#if DIST_WITH_CUDA
    // Usually the work was done long ago, and nobody has to wait.
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get());
    if (status == cudaSuccess) return milliseconds;
    if (status != cudaErrorNotReady) CUDA_CHECK(status);
#endif
    synchronize();
    return dist::elapsed_ms(begin_, end_);
  }

 private:
  NcclCommunicator& nccl_;
  Event begin_;
  Event end_;
};

}  // namespace

NcclProcessGroup::NcclProcessGroup(const Communicator& comm, Device device)
    : comm_(comm), stream_(device), nccl_(connect_nccl(comm, device)) {}

Tensor NcclProcessGroup::allocate(Shape shape) {
  return allocate_nccl(nccl_, std::move(shape));
}

std::unique_ptr<Work> NcclProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op,
                                                   const Stream& producer,
                                                   const std::string& name,
                                                   std::span<double> numbers) {
  const CallScope scope("all_reduce", name);
  // Kernels queued on `producer` may still be writing to `tensor`. The event makes our stream
  // wait for them, while the host is free to queue further work.
  stream_.wait(producer.record_event());
  Event begin = stream_.record_event();
  if (numbers.empty()) {
    all_reduce_nccl(nccl_, tensor, op, stream_);
  } else {
    all_reduce_nccl(nccl_, tensor, op, numbers, stream_);
  }
  return std::make_unique<NcclWork>(nccl_, std::move(begin), stream_.record_event());
}

std::unique_ptr<Work> NcclProcessGroup::reduce_scatter(const Tensor& tensor, ReduceOp op,
                                                       const Stream& producer,
                                                       const std::string& name,
                                                       std::span<double> numbers) {
  const CallScope scope("reduce_scatter", name);
  stream_.wait(producer.record_event());
  Event begin = stream_.record_event();
  reduce_scatter_nccl(nccl_, tensor, op, numbers, stream_);
  return std::make_unique<NcclWork>(nccl_, std::move(begin), stream_.record_event());
}

std::unique_ptr<Work> NcclProcessGroup::all_gather(const Tensor& tensor, const Stream& producer,
                                                   const std::string& name) {
  const CallScope scope("all_gather", name);
  stream_.wait(producer.record_event());
  Event begin = stream_.record_event();
  all_gather_nccl(nccl_, tensor, stream_);
  return std::make_unique<NcclWork>(nccl_, std::move(begin), stream_.record_event());
}

std::unique_ptr<Work> NcclProcessGroup::broadcast(const Tensor& tensor, int root,
                                                  const Stream& producer) {
  stream_.wait(producer.record_event());
  Event begin = stream_.record_event();
  broadcast_nccl(nccl_, tensor, root, stream_);
  return std::make_unique<NcclWork>(nccl_, std::move(begin), stream_.record_event());
}

std::string NcclProcessGroup::description() const {
  return "nccl";
}

}  // namespace dist
