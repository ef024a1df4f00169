#include "common/device.hpp"

#include "common/check_cuda.hpp"
#include "common/console.hpp"
#include "common/cpu_quota.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>

#include <optional>

namespace dist {

// Makes a GPU current. Returns why it cannot be used here; empty if it can.
static std::string why_no_gpu([[maybe_unused]] Device device) {
#if DIST_WITH_CUDA
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0 && more_ranks_than_processors()) {
    // The host's waits would spin, on processors that other ranks need.
    status = cudaInitDevice(device.index, cudaDeviceScheduleBlockingSync,
                            cudaInitDeviceFlagsAreValid);
  }
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

// The number of GPUs that this process can use: 0 without CUDA, a driver or a card.
static int cuda_device_count() {
#if DIST_WITH_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
#endif
  return 0;
}

void make_current([[maybe_unused]] Device device) {
#if DIST_WITH_CUDA
  // An error, such as that of an earlier kernel, is left to the next call that can report it.
  if (!device.is_cpu()) static_cast<void>(cudaSetDevice(device.index));
#endif
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

DeviceChoice find_gpu(int local_rank, std::string (*why_no_kernel)()) {
  const StartScope start;  // CUDA starts, which takes seconds on some hosts
  const int gpus = cuda_device_count();
  const Device device{DeviceType::cuda, gpus > 0 ? local_rank % gpus : 0};
  std::string obstacle = why_no_gpu(device);
  if (obstacle.empty() && why_no_kernel != nullptr) obstacle = why_no_kernel();
  if (!obstacle.empty()) return {{}, obstacle};
  return {device, fmt::format("{}{} GPU{} on this host", gpus,
                              DIST_CUDA_EMULATED ? " emulated" : "", gpus == 1 ? "" : "s")};
}

DeviceChoice choose_device(const Communicator& comm, const std::string& request,
                           std::string (*why_no_kernel)()) {
  const DeviceChoice mine = request == "cpu" ? DeviceChoice{{}, "as requested"}
                                             : find_gpu(comm.local_rank(), why_no_kernel);
  const std::optional<int> without = comm.first_to_disagree(!mine.device.is_cpu());
  if (!without) return mine;
  std::string reason = broadcast_text(comm, mine.reason, *without);
  const bool some_have_one = !comm.all_agree(mine.device.is_cpu());
  if (some_have_one) reason = fmt::format("rank {}: {}", *without, reason);
  if (request == "cuda") throw Error("--device: cuda: " + reason);
#if DIST_WITH_CUDA
  if (!mine.device.is_cpu())
    static_cast<void>(cudaDeviceReset());  // others may need its memory
#endif
  return {{}, reason};
}

}  // namespace dist
