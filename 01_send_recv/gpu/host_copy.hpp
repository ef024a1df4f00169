// Lets a host-side operation work on a tensor that may be on a GPU.
//
// Debian's and Ubuntu's MPI cannot read GPU memory: MPI_Send crashes on a device pointer. So a
// message to or from a GPU is staged through pinned host memory. There is no copy if the tensor
// is on the CPU, or if MPI is CUDA-aware and `operate` only passes the memory to MPI (for_mpi).
#pragma once

#include "01_send_recv/gpu/cuda_aware.hpp"
#include "common/tensor.hpp"

#include <span>
#include <string>

namespace dist {

// Returns "; MPI is not CUDA-aware and gets pinned host copies" or the opposite statement, or
// an empty string for tensors on the CPU.
inline std::string describe_messages(Device device) {
  if (device.is_cpu()) return "";
  return mpi_is_cuda_aware() ? "; MPI is CUDA-aware and reads the GPU's memory directly"
                             : "; MPI is not CUDA-aware and gets pinned host copies";
}

// Calls operate(std::span<float>) with the contents of `tensor`, after all work queued on
// `stream` is done. Whatever operate writes is in the tensor when on_host returns.
template <class Operate>
void on_host(const Stream& stream, const Tensor& tensor, Operate operate) {
  if (tensor.device().is_cpu()) {
    operate(tensor.span());
    return;
  }
  auto* const staging = static_cast<float*>(stream.staging(tensor.size_bytes()));
  copy_bytes(stream, staging, tensor.data(), tensor.size_bytes());
  stream.synchronize();
  operate(std::span<float>(staging, tensor.numel()));
  copy_bytes(stream, tensor.data(), staging, tensor.size_bytes());
  stream.synchronize();  // now the staging memory may be reused
}

// Like on_host, but for an operation that only reads. Returns what `read` returns. On the CPU,
// nothing is copied, because a copy of the largest weight would raise the rank's peak memory.
template <class Read>
auto read_on_host(const Stream& stream, const Tensor& tensor, Read read) {
  if (tensor.device().is_cpu()) return read(std::span<const float>(tensor.span()));
  return read(std::span<const float>(to_host(stream, tensor)));
}

// Like on_host, but for an operation that only passes the memory to MPI. A CUDA-aware MPI gets
// the GPU's own memory, and nothing is copied.
template <class Operate>
void for_mpi(const Stream& stream, const Tensor& tensor, Operate operate) {
  if (tensor.device().is_cpu() || !mpi_is_cuda_aware()) {
    on_host(stream, tensor, operate);
    return;
  }
  stream.synchronize();  // MPI does not know our streams, so the tensor must be complete
  operate(std::span<float>(tensor.data(), tensor.numel()));
}

}  // namespace dist
