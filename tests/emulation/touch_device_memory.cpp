// Makes one mistake that CUDA does not forgive, named by the argument. The emulation must end
// the program before the last line, or report an error there.
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <string>

namespace {

struct Write {
  float* to;
  bool done = false;
  void operator()(std::size_t i) const { to[i] = 1.0F; }
};

// One launch of a kernel that writes to `to`.
void launch_write(cudaStream_t stream, float* to) {
  emulation::launch(stream, 16, Write{to});
}

float* floats() {
  void* memory = nullptr;
  cudaMalloc(&memory, 64);
  return static_cast<float*>(memory);
}

// Mistakes with NCCL, on one rank. `memory` is cudaMalloc's.
void misuse_nccl(const std::string& mistake, cudaStream_t stream, void* memory) {
  MPI_Init(nullptr, nullptr);
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 1, id, 0);
  void* registered = nullptr;
  void* handle = nullptr;
  ncclMemAlloc(&registered, 64);
  ncclCommRegister(comm, registered, 64, &handle);
  cudaGraph_t graph = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  ncclAllReduce(registered, registered, 16, ncclFloat, ncclSum, comm, stream);
  cudaStreamEndCapture(stream, &graph);

  if (mistake == "nccl-deregister") ncclCommDeregister(comm, handle);
  if (mistake == "nccl-free") ncclMemFree(registered);
  if (mistake == "nccl-other-memory") ncclMemFree(memory);
  if (mistake == "nccl-finalize") ncclCommFinalize(comm);
  ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
  if (mistake == "nccl-revoked") ncclCommFinalize(comm);
  if (mistake == "nccl-abort") ncclCommAbort(comm);
  cudaGraphDestroy(graph);
  ncclCommDeregister(comm, handle);
  ncclCommAbort(comm);
  if (mistake == "nccl-freed") ncclCommDestroy(comm);
  ncclMemFree(registered);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mistake = argc > 1 ? argv[1] : "";
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  float* const memory = floats();
  float on_host[16] = {};

  if (mistake == "free") cudaFree(on_host);
  if (mistake == "write") static_cast<volatile float*>(memory)[3] = 1;
  if (mistake == "read") on_host[0] = static_cast<volatile float*>(memory)[3];
  if (mistake == "host-pointer") launch_write(stream, on_host);
  if (mistake == "freed") {
    cudaFree(memory);
    launch_write(stream, memory);
  }
  if (mistake == "other-gpu") {
    cudaSetDevice(1);
    float* const other = floats();
    cudaSetDevice(0);
    launch_write(stream, other);
  }
  if (mistake == "other-stream") {
    cudaSetDevice(1);
    launch_write(stream, memory);
  }
  if (mistake == "fault") launch_write(stream, memory);  // with EMULATED_FAULT=0:1
  if (mistake.rfind("nccl", 0) == 0) misuse_nccl(mistake, stream, memory);
  if (const cudaError_t now = cudaGetLastError(); now != cudaSuccess && mistake != "fault") {
    std::printf("the launch fails: %s\n", cudaGetErrorString(now));
    return 3;
  }
  const cudaError_t later = cudaStreamSynchronize(stream);
  if (later != cudaSuccess) std::printf("found later: %s\n", cudaGetErrorString(later));
  if (cudaFree(nullptr) != cudaSuccess) std::printf("and by every call from then on\n");
  std::printf("the end\n");
  return 0;
}
