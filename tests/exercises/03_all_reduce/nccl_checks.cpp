// A shift in NCCL, on emulated GPUs: values, and that it is queued, in the right place.
#include "common/check_cuda.hpp"
#include "tests/exercises/03_all_reduce/checks.hpp"

#if DIST_CUDA_EMULATED
#include "02_broadcast/connect_nccl.hpp"
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

// This rank's GPU, with a stream and NCCL.
struct Gpu {
  explicit Gpu(const Trial& trial)
      : device(choose_device("cuda", trial.comm().local_rank()).device),
        stream(device),
        nccl(connect_nccl(trial.comm(), device)) {}

  // Until everything is done that was queued anywhere on this GPU.
  void finish() {
    nccl.wait_for_call();
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    nccl.synchronize(stream);
  }

  Device device;
  Stream stream;
  NcclCommunicator nccl;
};

// Work on a stream that does not end before open(): what is queued behind it waits.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    emulation::enqueue(stream.get(), [open = open_] {
      const WaitScope wait("the work that is queued before the shift");
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
        fmt::format("{} elements: element {} of `{}` is {}, must be {}, rank "
                    "{}'s",
                    data.size(), i, what, data[i], trial.value(rank, i), rank));
  }
}

int left_of(const Trial& trial, int seats = 1) {
  return (trial.rank() + (trial.size() - 1) * seats) % trial.size();
}

const std::string kGroupHint =
    "each rank's stream stands in its send and waits for the neighbour's receive, which is "
    "queued behind that one's send: put both between ncclGroupStart and ncclGroupEnd, which "
    "make one piece of work of them";

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
  const Tensor in({kCount}, gpu.device);
  const Buffer<float> mine(kCount, gpu.device, Memory::pinned);  // so that the copy can wait
  for (std::size_t i = 0; i < kCount; ++i) mine.data()[i] = trial.value(trial.rank(), i);
  Gate gate(gpu.stream);
  copy_bytes(gpu.stream, out.data(), mine.data(), out.size_bytes());
  solution(gpu.nccl, out, in, gpu.stream);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));  // what stands on another stream comes too early
  trial.comm().barrier();
  gate.open();
  gpu.finish();
  expect_numbers_of(trial, left_of(trial), "in", to_host(gpu.stream, in));
}

void check_two_in_a_row(Trial& trial, const NcclShift& solution) {
  Gpu gpu(trial);
  const Tensor out({997}, gpu.device);
  const Tensor between({997}, gpu.device);
  const Tensor in({997}, gpu.device);
  const std::vector<float> mine = numbers_of(trial, trial.rank(), 997);
  copy_bytes(gpu.stream, out.data(), mine.data(), out.size_bytes());
  solution(gpu.nccl, out, between, gpu.stream);
  solution(gpu.nccl, between, in, gpu.stream);
  gpu.finish();
  expect_numbers_of(trial, left_of(trial, 2), "in", to_host(gpu.stream, in));
}

}  // namespace

std::vector<Check> checks_of_nccl_ring_shift(const NcclShift& solution) {
  return {
      {"values", "`in` holds what the left neighbour had in `out`",
       "send to the right, (rank + 1) % size, and receive from the left, (rank + size - 1) % "
       "size; the count is in elements",
       [=](Trial& trial) { check_values(trial, solution); }, kGroupHint},
      {"out-unchanged", "`out` is what it was",
       "receive straight into `in`: the neighbour's numbers have no business in `out`",
       [=](Trial& trial) { check_out(trial, solution); }, kGroupHint},
      {"host-goes-on", "it returns although the stream has not come so far",
       "NCCL's calls only queue work, and the stream keeps the order: do not synchronize "
       "anything here. Who needs the result on the host waits for it later",
       [=](Trial& trial) { check_that_the_host_goes_on(trial, solution); }, ""},
      {"stream-order", "it sends what `out` holds when the stream comes to it",
       "both calls must be queued on the stream that was given, stream.get(): on another one, "
       "nullptr is one, too, they run before the work that fills `out`",
       [=](Trial& trial) { check_stream_order(trial, solution); }, kGroupHint},
      {"two-in-a-row", "a second shift may be queued right behind the first",
       "the communicator is non-blocking: a call may be in progress still when it returns, and "
       "the next one is then refused. NCCL_CHECK(nccl, ...) around each call waits for that, "
       "and throws if something is refused",
       [=](Trial& trial) { check_two_in_a_row(trial, solution); }, kGroupHint},
  };
}

}  // namespace dist::exercise
#endif
