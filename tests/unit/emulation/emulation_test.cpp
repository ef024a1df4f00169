// The emulated GPU makes CUDA's and NCCL's promises and no others. A missing wait, an access by
// the host or a premature call may go unnoticed on a GPU, but here it fails every time.
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tests/support/mpi_test.hpp"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using dist::test::world;

namespace {

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  return stream;
}

float* device_floats(std::size_t count) {
  void* memory = nullptr;
  cudaMalloc(&memory, count * sizeof(float));
  return static_cast<float*>(memory);
}

ncclUniqueId id_of_rank_0() {
  ncclUniqueId id{};
  if (world().rank() == 0) ncclGetUniqueId(&id);
  MPI_CHECK(MPI_Bcast(id.internal, sizeof(id.internal), MPI_CHAR, 0, world().get()));
  return id;
}

// Called on all ranks.
ncclResult_t connect(ncclComm_t* comm, const ncclUniqueId& id) {
  return ncclCommInitRank(comm, world().size(), id, world().rank());
}

}  // namespace

TEST_CASE("work on one stream runs in order; work on two streams runs in any order") {
  cudaStream_t a = new_stream();
  cudaStream_t b = new_stream();
  int overtaken = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> turn = 0;
    std::vector<int> of_a;
    int of_b = 0;
    for (int i = 0; i < 3; ++i) {
      emulation::enqueue(a, [&] { of_a.push_back(turn++); });
    }
    emulation::enqueue(b, [&] { of_b = turn++; });
    cudaStreamSynchronize(a);
    cudaStreamSynchronize(b);
    CHECK((of_a[0] < of_a[1] && of_a[1] < of_a[2]));
    overtaken += of_b < of_a[2] ? 1 : 0;
  }
  CHECK(overtaken > 0);
  CHECK(overtaken < 200);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

TEST_CASE("a wait covers what the event had recorded when the wait was queued") {
  cudaStream_t a = new_stream();
  cudaStream_t b = new_stream();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> done = false;
    std::atomic<bool> seen = false;
    emulation::enqueue(a, [&] { done = true; });
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    emulation::enqueue(b, [&] { seen = done.load(); });
    cudaStreamSynchronize(b);
    CHECK(seen);
    cudaStreamSynchronize(a);
  }
  // Recording the event again after b's own work must not make b wait for itself.
  std::atomic<bool> go = false;
  cudaEventRecord(event, a);
  cudaStreamWaitEvent(b, event, 0);
  emulation::enqueue(b, [&] { go = true; });
  cudaEventRecord(event, b);
  cudaStreamSynchronize(b);
  CHECK(go);
  cudaEventDestroy(event);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}

TEST_CASE("a copy from pageable memory may read it after the call") {
  cudaStream_t stream = new_stream();
  float* memory = device_floats(1);
  int late = 0;
  for (int round = 0; round < 50; ++round) {
    float number = 1;
    float copy = 0;
    cudaMemcpyAsync(memory, &number, 4, cudaMemcpyDefault, stream);
    number = 2;
    cudaMemcpyAsync(&copy, memory, 4, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    late += copy == 2 ? 1 : 0;
  }
  CHECK(late > 0);
  cudaFree(memory);
  cudaStreamDestroy(stream);
}

TEST_CASE("new device memory holds NaNs") {
  float* memory = device_floats(100);
  std::vector<float> copy(100);
  cudaMemcpyAsync(copy.data(), memory, 400, cudaMemcpyDefault, nullptr);
  cudaStreamSynchronize(nullptr);
  for (const float number : copy) CHECK(std::isnan(number));
  cudaFree(memory);
}

TEST_CASE("ranks with different ids or on the same GPU cannot connect") {
  ncclComm_t comm = nullptr;
  cudaSetDevice(world().local_rank());
  ncclUniqueId id = id_of_rank_0();
  if (world().rank() == world().size() - 1) id.internal[5] ^= 1;
  const bool alone = world().size() == 1;
  CHECK(connect(&comm, id) == (alone ? ncclSuccess : ncclInvalidArgument));
  cudaSetDevice(0);
  CHECK(connect(&comm, id_of_rank_0()) == (alone ? ncclSuccess : ncclInvalidUsage));
  if (!alone) {
    CHECK(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU") != std::string::npos);
  }
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("a collective whose buffer is written meanwhile has a torn result") {
  cudaSetDevice(world().local_rank());
  ncclComm_t comm = nullptr;
  connect(&comm, id_of_rank_0());
  cudaStream_t stream = new_stream();
  cudaStream_t other = new_stream();
  float* memory = device_floats(4);
  std::vector<float> result(4);
  int torn = 0;
  for (int round = 0; round < 20; ++round) {
    // The last rank delays the collective until all others have changed their numbers.
    emulation::enqueue(stream, [&] { std::fill(memory, memory + 4, 1.0F); });
    cudaStreamSynchronize(stream);
    world().barrier();
    const bool last = world().rank() == world().size() - 1;
    if (last) emulation::enqueue(stream, [&] { world().barrier(); });
    ncclAllReduce(memory, memory, 4, ncclFloat, ncclSum, comm, stream);
    if (!last) {
      emulation::enqueue(other, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::fill(memory, memory + 4, 5.0F);
        world().barrier();
      });
    }
    cudaMemcpyAsync(result.data(), memory, 16, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    cudaStreamSynchronize(other);
    torn += std::isnan(result[3]) ? 1 : 0;
  }
  if (world().rank() < world().size() - 1) CHECK(torn > 0);
  ncclCommFinalize(comm);
  ncclCommDestroy(comm);
  cudaFree(memory);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(other);
}
