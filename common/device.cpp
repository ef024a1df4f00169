#include "common/device.hpp"

#include "common/check_cuda.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

namespace dist {

// Makes a GPU current. Returns why it cannot be used here; empty if it can.
static std::string why_no_gpu([[maybe_unused]] Device device) {
#if DIST_WITH_CUDA
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) status = cudaSetDevice(device.index);
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver) {
    // The runtime reports this both for an old driver and for a missing one.
    int driver = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
      return fmt::format("the GPU driver supports CUDA {}.{}, but this build needs {}.{}",
                         driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                         CUDART_VERSION % 1000 / 10);
    }
    return "no GPU driver on this host";
  }
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count > 0 ? "" : "no GPU on this host";
#else
  return "built without CUDA";
#endif
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::string describe_run(int ranks, const DeviceChoice& choice) {
  return fmt::format("{} rank{}, tensors on {} ({})", ranks, ranks == 1 ? "" : "s",
                     to_string(choice.device), choice.reason);
}

int cuda_device_count() {
#if DIST_WITH_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
#endif
  return 0;
}

CurrentDevice::CurrentDevice([[maybe_unused]] Device device) {
#if DIST_WITH_CUDA
  // An error, such as that of an earlier kernel, is left to the next call that can report it.
  int before = 0;
  if (device.is_cpu() || cudaGetDevice(&before) != cudaSuccess) return;
  if (before != device.index && cudaSetDevice(device.index) == cudaSuccess) before_ = before;
#endif
}

CurrentDevice::~CurrentDevice() {
#if DIST_WITH_CUDA
  if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
#endif
}

DeviceChoice choose_device(const std::string& request, int local_rank,
                           std::string (*why_no_kernel)()) {
  if (request == "cpu") return {{}, "as requested"};
  const StartScope start;  // CUDA starts, which takes seconds on some hosts
  const int gpus = cuda_device_count();
  const Device device{DeviceType::cuda, gpus > 0 ? local_rank % gpus : 0};
  std::string obstacle = why_no_gpu(device);
  if (obstacle.empty() && why_no_kernel != nullptr) obstacle = why_no_kernel();
  if (!obstacle.empty() && request == "cuda") throw Error("--device: cuda: " + obstacle);
  if (!obstacle.empty()) return {{}, obstacle};
  return {device, fmt::format("{}{} GPU{} on this host", gpus,
                              DIST_CUDA_EMULATED ? " emulated" : "", gpus == 1 ? "" : "s")};
}

}  // namespace dist
