// What an all-reduce of gradients on a GPU waits for, and when its time begins.
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/buffer.hpp"
#include "tests/support/mpi_test.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace dist;
using namespace dist::test;

namespace {

struct SlowKernel {
  std::chrono::steady_clock::time_point* end;
  void operator()(std::size_t) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    *end = std::chrono::steady_clock::now();
  }
};

// Ends once the host has set the flag, or gives up after ten seconds.
struct WaitForHost {
  std::atomic<int>* flag;  // 0, then 1, or 2 if nobody set it
  void operator()(std::size_t) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (*flag == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (*flag == 0) *flag = 2;
  }
};

}  // namespace

TEST_CASE("an all-reduce does not wait for kernels that a later one needs") {
  const Device device = choose_device(world(), "cuda").device;
  const Stream stream(device);
  const auto group =
      make_process_group(Backend::ours, world(), device, AllReduceAlgorithm::ring, true);
  const Tensor early({8}, device);
  const Tensor late({8}, device);
  const Buffer<std::chrono::steady_clock::time_point> end(1, device, Memory::pinned);
  const Buffer<std::atomic<int>> flag(1, device, Memory::pinned);
  emulation::launch(stream.get(), 1, SlowKernel{end.data()});
  const auto first = group->all_reduce(early, ReduceOp::avg, stream);
  emulation::launch(stream.get(), 1, WaitForHost{flag.data()});
  const auto second = group->all_reduce(late, ReduceOp::avg, stream);
  first->wait(stream);
  CHECK(*flag.data() == 0);
  int nobody = 0;
  flag.data()->compare_exchange_strong(nobody, 1);
  second->wait(stream);
}

TEST_CASE("an all-reduce's time does not include the kernels before it") {
  const Device device = choose_device(world(), "cuda").device;
  const Stream stream(device);
  for (const bool overlap : {false, true}) {
    const auto group =
        make_process_group(Backend::ours, world(), device, AllReduceAlgorithm::ring, overlap);
    const Tensor gradient({8}, device);
    const Buffer<std::chrono::steady_clock::time_point> end(1, device, Memory::pinned);
    emulation::launch(stream.get(), 1, SlowKernel{end.data()});
    const auto work = group->all_reduce(gradient, ReduceOp::avg, stream);
    work->wait(stream);
    const std::chrono::duration<double, std::milli> since_kernel =
        std::chrono::steady_clock::now() - *end.data();
    CAPTURE(overlap);
    CHECK(work->elapsed_ms() <= since_kernel.count());
  }
}
