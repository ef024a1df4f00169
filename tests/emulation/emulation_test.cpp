// The emulated GPU makes CUDA's and NCCL's promises and no others. A missing wait, an access by
// the host or a premature call may go unnoticed on a GPU, but here it fails every time.
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tests/support/mpi_test.hpp"
#include "tests/support/run_command.hpp"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using dist::test::run_command;
using dist::test::world;

namespace {

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
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
ncclResult_t connect(ncclComm_t* comm, const ncclUniqueId& id, bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  return ncclCommInitRankConfig(comm, world().size(), id, world().rank(), &config);
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

TEST_CASE("new device memory holds NaNs, and the host may not touch it") {
  float* memory = device_floats(100);
  std::vector<float> copy(100);
  cudaMemcpyAsync(copy.data(), memory, 400, cudaMemcpyDefault, nullptr);
  for (const float number : copy) CHECK(std::isnan(number));
  cudaFree(memory);
  if (world().rank() == 0) {
    for (const std::string name : {"read", "write"}) {
      const auto result = run_command(
          "env -u OMPI_COMM_WORLD_SIZE " PROGRAM_DIR "/../tests/touch_device_memory " + name);
      INFO(result.err);
      CHECK(result.status == 1);
      CHECK(result.says("emulated CUDA: the host touched device memory"));
    }
    CHECK(run_command(PROGRAM_DIR "/../tests/touch_device_memory free").status != 0);
  }
}

TEST_CASE("a non-blocking communicator refuses a call while one is in progress") {
  cudaSetDevice(world().local_rank());
  ncclComm_t comm = nullptr;
  CHECK(connect(&comm, id_of_rank_0(), false) == ncclInProgress);
  cudaStream_t stream = new_stream();
  float* memory = device_floats(4);
  const auto reduce = [&] {
    return ncclAllReduce(memory, memory, 4, ncclFloat, ncclSum, comm, stream);
  };
  CHECK(reduce() == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(nullptr)).find("in progress") != std::string::npos);
  const auto settle = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
    return state;
  };
  CHECK(settle() == ncclSuccess);
  CHECK(reduce() == ncclInProgress);
  CHECK(ncclCommFinalize(comm) == ncclInvalidUsage);
  settle();
  CHECK(ncclCommFinalize(comm) == ncclInProgress);
  settle();
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  cudaFree(memory);
  cudaStreamDestroy(stream);
}

TEST_CASE("ranks with different ids or on the same GPU cannot connect") {
  ncclComm_t comm = nullptr;
  cudaSetDevice(world().local_rank());
  ncclUniqueId id = id_of_rank_0();
  if (world().rank() == world().size() - 1) id.internal[5] ^= 1;
  const bool alone = world().size() == 1;
  CHECK(connect(&comm, id, true) == (alone ? ncclSuccess : ncclInvalidArgument));
  cudaSetDevice(0);
  CHECK(connect(&comm, id_of_rank_0(), true) == (alone ? ncclSuccess : ncclInvalidUsage));
  if (!alone) {
    CHECK(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU") != std::string::npos);
  }
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("two ranks that both send first wait forever, unless the calls are in a group") {
  if (world().size() != 2) return;
  cudaSetDevice(world().local_rank());
  ncclComm_t comm = nullptr;
  connect(&comm, id_of_rank_0(), true);
  cudaStream_t stream = new_stream();
  float* out = device_floats(4);
  float* in = device_floats(4);
  const int peer = 1 - world().rank();
  const auto exchange = [&](bool group) {
    if (group) ncclGroupStart();
    ncclSend(out, 4, ncclFloat, peer, comm, stream);
    ncclRecv(in, 4, ncclFloat, peer, comm, stream);
    if (group) ncclGroupEnd();
  };
  exchange(true);
  cudaStreamSynchronize(stream);
  exchange(false);
  // All work is queued on all ranks, and each rank's stream is executing its send.
  world().barrier();
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  world().barrier();
  ncclCommAbort(comm);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  world().barrier();
}
