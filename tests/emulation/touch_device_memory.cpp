// Makes one mistake that CUDA does not forgive, named by the argument. The emulation must end
// the program before the last line, or report an error there.
#include <cuda_runtime_api.h>

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
