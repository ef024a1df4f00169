#include "05_ddp_training/model/cublas.hpp"

#include "common/check.hpp"
#include "common/device.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>

namespace dist {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(fmt::format("{}: {}", cublasGetStatusString(status), call));
}

Cublas& cublas_of(const Stream& stream) {
  // As much as NVIDIA recommends for Hopper; older GPUs need less.
  constexpr std::size_t kWorkspace = std::size_t{32} << 20;
  std::shared_ptr<void>& kept = stream.companion();
  if (!kept) {
    const StartScope start;
    const CurrentDevice current(stream.device());
    cublasHandle_t handle = nullptr;
    check_cublas(cublasCreate(&handle), "cublasCreate");
    const auto made = std::make_shared<Cublas>(
        Cublas{{handle, cublasDestroy}, Buffer<std::byte>(kWorkspace, stream.device()), {}});
    check_cublas(cublasSetStream(handle, stream.get()), "cublasSetStream");
    check_cublas(cublasSetWorkspace(handle, made->workspace.data(), kWorkspace),
                 "cublasSetWorkspace");
    kept = made;
  }
  return *static_cast<Cublas*>(kept.get());
}

}  // namespace dist
