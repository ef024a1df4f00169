// Checks of a shift in NCCL, on emulated GPUs: its values, and whether it is queued on the
// right stream.
#include "common/check_cuda.hpp"
#include "tests/exercises/03_all_reduce/checks.hpp"

#if DIST_CUDA_EMULATED
#include "01_send_recv/nccl_send_recv.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "common/buffer.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

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

  // Waits until all work queued anywhere on this GPU is done.
  void finish() {
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    nccl.synchronize(stream);
  }

  Device device;
  Stream stream;
  NcclCommunicator nccl;
};

// Work that does not finish before open() and so holds up all later work on its stream.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    emulation::enqueue(stream.get(), [open = open_] {
      const WaitScope wait("the work queued before the shift");
      open->wait(false);
    });
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    *open_ = true;
    open_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

std::vector<std::size_t> sizes(const Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size());
  return {n, 0, 1, n + 1, 997, std::size_t{1} << 18};
}

std::vector<float> numbers_of(const Trial& trial, int rank, std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = trial.value(rank, i);
  return numbers;
}

void expect_numbers_of(Trial& trial, int rank, const char* what,
                       const std::vector<float>& data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == trial.value(rank, i)) continue;
    return trial.wrong(
        fmt::format("{} elements: element {} of `{}` is {}, expected {} from rank {}",
                    data.size(), i, what, data[i], trial.value(rank, i), rank));
  }
}

int left_of(const Trial& trial, int seats = 1) {
  return (trial.rank() + (trial.size() - 1) * seats) % trial.size();
}

const std::string kGroupHint =
    "on each rank's stream, the send waits for the neighbour's receive, which is queued behind "
    "the neighbour's own send. Put both calls between ncclGroupStart and ncclGroupEnd, which "
    "combine them into one piece of work";

void check_values(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  for (const std::size_t count : sizes(trial)) {
    const Tensor out({count}, gpu.device);
    const Tensor in({count}, gpu.device);
    const std::vector<float> mine = numbers_of(trial, trial.rank(), count);
    copy_bytes(gpu.stream, out.data(), mine.data(), out.size_bytes());
    gpu.stream.synchronize();
    solution(gpu.nccl, out, in, gpu.stream);
    gpu.finish();
    expect_numbers_of(trial, left_of(trial), "in", to_host(gpu.stream, in));
  }
}

void check_out(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  const Tensor out({997}, gpu.device);
  const Tensor in({997}, gpu.device);
  const std::vector<float> mine = numbers_of(trial, trial.rank(), 997);
  copy_bytes(gpu.stream, out.data(), mine.data(), out.size_bytes());
  gpu.stream.synchronize();
  solution(gpu.nccl, out, in, gpu.stream);
  gpu.finish();
  expect_numbers_of(trial, trial.rank(), "out", to_host(gpu.stream, out));
}

void check_that_the_host_goes_on(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  const Tensor out({997}, gpu.device);
  const Tensor in({997}, gpu.device);
  Gate gate(gpu.stream);
  solution(gpu.nccl, out, in, gpu.stream);
  trial.comm().barrier();
  gate.open();
  gpu.finish();
}

void check_stream_order(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  constexpr std::size_t kCount = 997;
  const Tensor out({kCount}, gpu.device);
  const Tensor between({kCount}, gpu.device);
  const Tensor in({kCount}, gpu.device);
  const Buffer<float> mine(kCount, gpu.device, Memory::pinned);  // so the host does not wait
  for (std::size_t i = 0; i < kCount; ++i) mine.data()[i] = trial.value(trial.rank(), i);
  Gate gate(gpu.stream);
  copy_bytes(gpu.stream, out.data(), mine.data(), out.size_bytes());
  solution(gpu.nccl, out, between, gpu.stream);
  solution(gpu.nccl, between, in, gpu.stream);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));  // work on the default stream would run here
  trial.comm().barrier();
  gate.open();
  gpu.finish();
  expect_numbers_of(trial, left_of(trial, 2), "in", to_host(gpu.stream, in));
}

}  // namespace

std::vector<Check> checks_of_nccl_ring_shift(const NcclShift& solution) {
  return {
      {"values", "`in` receives what the left neighbour had in `out`",
       "send to the right, (rank + 1) % size, and receive from the left, (rank + size - 1) % "
       "size; the count is in elements",
       [=](Trial& trial) { check_values(trial, solution); }, kGroupHint},
      {"out-unchanged", "`out` does not change",
       "receive directly into `in`: the neighbour's numbers must never be in `out`",
       [=](Trial& trial) { check_out(trial, solution); }, kGroupHint},
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
