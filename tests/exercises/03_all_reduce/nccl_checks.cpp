// Checks of a shift in NCCL, on emulated GPUs: its values, and whether it is queued on the
// right stream.
#include "tests/exercises/03_all_reduce/checks.hpp"
#include "tests/exercises/gate.hpp"

#if DIST_CUDA_EMULATED
#include "01_send_recv/nccl_send_recv.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "common/buffer.hpp"

namespace dist::exercise {
namespace {

// This rank's GPU, with a stream and an NCCL communicator.
struct Gpu {
  explicit Gpu(const Trial& trial)
      : device(choose_device("cuda", trial.comm().local_rank()).device),
        stream(device),
        nccl(connect_nccl(trial.comm(), device)) {
    // Connects the neighbours. Otherwise a shift without a group would hang in its first call,
    // where the watch waits longer before it reports.
    const Tensor out({1}, device);
    const Tensor in({1}, device);
    send_recv_nccl(nccl, out, trial.comm().right(), in, trial.comm().left(), stream);
    nccl.synchronize(stream);
  }

  // Queues a copy of this rank's numbers to `out`. They are pinned, so the host does not wait.
  Buffer<float> fill(const Trial& trial, const Tensor& out) {
    Buffer<float> mine(out.numel(), device, Memory::pinned);
    for (std::size_t i = 0; i < out.numel(); ++i) {
      mine.data()[i] = trial.value(trial.rank(), i);
    }
    copy_bytes(stream, out.data(), mine.data(), out.size_bytes());
    return mine;
  }
  // Waits until all work queued anywhere on this GPU is done.
  void finish() {
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    nccl.synchronize(stream);
  }

  Device device;
  Stream stream;
  NcclCommunicator nccl;
};

// Expects the numbers of the rank that is `steps` to the left.
void expect_numbers(Trial& trial, Gpu& gpu, const std::string& what, const Tensor& data,
                    int steps) {
  const int rank = (trial.rank() + (trial.size() - 1) * steps) % trial.size();
  expect_values(trial, to_host(gpu.stream, data), fmt::format("`{}` of rank {}, ", what, rank),
                [&](std::size_t i) { return trial.value(rank, i); });
}

const std::string kGroupHint =
    "on each rank's stream, the send waits for the neighbour's receive, which is queued behind "
    "the neighbour's own send. Put both calls between ncclGroupStart and ncclGroupEnd, which "
    "combine them into one piece of work";

// Shifts tensors of several sizes, and examines what `in` or `out` holds afterwards.
void check_shift(Trial& trial, const NcclShift& solution, bool examine_in) {
  Gpu gpu(trial);
  for (const std::size_t count : {trial.n(), 0UL, 1UL, trial.n() + 1, 997UL, 1UL << 18}) {
    const Tensor out({count}, gpu.device);
    const Tensor in({count}, gpu.device);
    const Buffer<float> mine = gpu.fill(trial, out);
    gpu.stream.synchronize();
    solution(gpu.nccl, out, in, gpu.stream);
    gpu.finish();
    if (examine_in) expect_numbers(trial, gpu, "in", in, 1);
    if (!examine_in) expect_numbers(trial, gpu, "out", out, 0);
  }
}

void check_that_the_host_goes_on(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  const Tensor out({997}, gpu.device);
  const Tensor in({997}, gpu.device);
  Gate gate(gpu.stream);
  solution(gpu.nccl, out, in, gpu.stream);
  trial.expect(gate.open(), "the call did not return while the stream was held up");
  gpu.finish();
}

void check_stream_order(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  const Tensor out({997}, gpu.device);
  const Tensor between({997}, gpu.device);
  const Tensor in({997}, gpu.device);
  Gate gate(gpu.stream);
  const Buffer<float> mine = gpu.fill(trial, out);
  solution(gpu.nccl, out, between, gpu.stream);
  solution(gpu.nccl, between, in, gpu.stream);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));  // work on the default stream would run here
  trial.comm().barrier();
  gate.open();
  gpu.finish();
  expect_numbers(trial, gpu, "in", in, 2);
}

}  // namespace

std::vector<Check> checks_of_nccl_ring_shift(const NcclShift& solution) {
  return {
      {"values", "`in` receives what the left neighbour had in `out`",
       "send to the right, (rank + 1) % size, and receive from the left, (rank + size - 1) % "
       "size; the count is in elements",
       [=](Trial& trial) { check_shift(trial, solution, true); }, kGroupHint},
      {"out-unchanged", "`out` does not change",
       "receive directly into `in`: the neighbour's numbers must never be in `out`",
       [=](Trial& trial) { check_shift(trial, solution, false); }, kGroupHint},
      {"host-goes-on", "the call returns before the stream has done the work",
       "NCCL's calls only queue work, and the stream keeps it in order: do not synchronize "
       "anything here. Code that needs the result on the host waits for it later",
       [=](Trial& trial) { check_that_the_host_goes_on(trial, solution); }, ""},
      {"stream-order", "each shift sends what `out` holds when the stream reaches the shift",
       "queue both calls on the stream that you were given, stream.get(). On a different "
       "stream, including nullptr, they run before the work that fills `out`",
       [=](Trial& trial) { check_stream_order(trial, solution); }, kGroupHint},
  };
}

}  // namespace dist::exercise
#endif
