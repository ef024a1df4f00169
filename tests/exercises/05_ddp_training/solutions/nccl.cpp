// Right and wrong averages by NCCL, in the emulated build.
#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

#if DIST_CUDA_EMULATED
#include "common/check_cuda.hpp"
#include "tests/exercises/05_ddp_training/reference/nccl_average.hpp"

namespace dist::exercise {
namespace {

void queue(NcclCommunicator& nccl, const Tensor& tensor, const Stream& stream,
           ncclRedOp_t op = ncclAvg) {
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat, op,
                                 nccl.get(), stream.get()));
}

// Right, differently written: CUDA's own calls, and one event for both.
void by_cuda_events(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                    const Stream& communication) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  CUDA_CHECK(cudaEventRecord(event, compute.get()));
  CUDA_CHECK(cudaStreamWaitEvent(communication.get(), event, 0));
  queue(nccl, tensor, communication);
  CUDA_CHECK(cudaEventRecord(event, communication.get()));
  CUDA_CHECK(cudaStreamWaitEvent(compute.get(), event, 0));
  CUDA_CHECK(cudaEventDestroy(event));
}

void sums(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
          const Stream& communication) {
  communication.wait(compute.record_event());
  queue(nccl, tensor, communication, ncclSum);
  compute.wait(communication.record_event());
}

void no_wait_before(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                    const Stream& communication) {
  queue(nccl, tensor, communication);
  compute.wait(communication.record_event());
}

void no_wait_after(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                   const Stream& communication) {
  communication.wait(compute.record_event());
  queue(nccl, tensor, communication);
}

// The event marks what was queued when it was recorded, and that was not yet the all-reduce.
void records_too_early(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                       const Stream& communication) {
  communication.wait(compute.record_event());
  const Event done = communication.record_event();
  queue(nccl, tensor, communication);
  compute.wait(done);
}

// Each stream waits for itself, which it does anyway.
void waits_for_itself(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                      const Stream& communication) {
  communication.wait(communication.record_event());
  queue(nccl, tensor, communication);
  compute.wait(communication.record_event());
}

void host_waits_before(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                       const Stream& communication) {
  compute.synchronize();
  queue(nccl, tensor, communication);
  compute.wait(communication.record_event());
}

void host_waits_after(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                      const Stream& communication) {
  communication.wait(compute.record_event());
  queue(nccl, tensor, communication);
  communication.synchronize();
}

void on_the_compute_stream(NcclCommunicator& nccl, const Tensor& tensor, const Stream& compute,
                           const Stream&) {
  queue(nccl, tensor, compute);
}

}  // namespace

std::vector<Solution> nccl_solutions() {
  const auto known = [](const char* name, const NcclAverages& solution) {
    return Solution{"nccl_average", name, checks_of_nccl_average(solution)};
  };
  return {
      known("reference", nccl_average),
      known("cuda-events", by_cuda_events),
      known("sum", sums),
      known("no-wait-before", no_wait_before),
      known("no-wait-after", no_wait_after),
      known("records-early", records_too_early),
      known("waits-for-itself", waits_for_itself),
      known("host-before", host_waits_before),
      known("host-after", host_waits_after),
      known("compute-stream", on_the_compute_stream),
  };
}

}  // namespace dist::exercise
#else
namespace dist::exercise {

std::vector<Solution> nccl_solutions() {
  return {};
}

}  // namespace dist::exercise
#endif
