// The emulated GPU's traps. A read of memory that nobody wrote, or a premature write, may go
// unnoticed on a GPU, but here it fails every time. Other tests show the order of queued work.
#include "tests/support/mpi_test.hpp"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

using dist::test::others_check;
using dist::test::skip;
using dist::test::world;

static cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  return stream;
}

static float* device_floats(std::size_t count) {
  void* memory = nullptr;
  cudaMalloc(&memory, count * sizeof(float));
  return static_cast<float*>(memory);
}

TEST_CASE("new device memory holds NaNs, and a copy may read pageable memory after the call") {
  cudaStream_t stream = new_stream();
  float* memory = device_floats(1);
  float copy = 0;
  cudaMemcpyAsync(&copy, memory, 4, cudaMemcpyDefault, stream);
  cudaStreamSynchronize(stream);
  CHECK(std::isnan(copy));
  int late = 0;
  for (int round = 0; round < 50; ++round) {
    float number = 1;
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

TEST_CASE("a collective whose buffer is written meanwhile has a torn result") {
  if (world().size() == 1) return skip("needs 2 ranks");
  cudaSetDevice(world().local_rank());
  ncclUniqueId id{};
  if (world().rank() == 0) ncclGetUniqueId(&id);
  MPI_CHECK(MPI_Bcast(id.internal, sizeof(id.internal), MPI_CHAR, 0, world().get()));
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, world().size(), id, world().rank());
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
  if (world().rank() < world().size() - 1) {
    CHECK(torn > 0);
  } else {
    others_check();
  }
  ncclCommFinalize(comm);
  ncclCommDestroy(comm);
  cudaFree(memory);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(other);
}
