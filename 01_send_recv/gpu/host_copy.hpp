// How a host-side operation meets a tensor that may lie on a GPU.
//
// Debian's and Ubuntu's MPI cannot read GPU memory: a device pointer given to MPI_Send is a
// segmentation fault. So a message to or from a GPU is staged through pinned host memory. On
// the CPU nothing is copied and `operate` sees the tensor itself; nor is it where MPI can read
// the GPU's memory by itself and `operate` only hands the memory on (for_mpi).
#pragma once

#include "01_send_recv/gpu/cuda_aware.hpp"
#include "common/tensor.hpp"

#include <span>

namespace dist {

// Calls operate(std::span<float>) on the host's view of `tensor`, with all work queued on
// `stream` done; what operate writes is in the tensor when on_host returns.
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
  stream.synchronize();  // the next user may write to the staging memory now
}

// The same for an operation that only reads, and returns what `read` returns. Nothing is copied
// on the CPU: a copy of the largest weight would be what a rank's memory has to hold at most.
template <class Read>
auto read_on_host(const Stream& stream, const Tensor& tensor, Read read) {
  if (tensor.device().is_cpu()) return read(std::span<const float>(tensor.span()));
  return read(std::span<const float>(to_host(stream, tensor)));
}

// on_host for an operation that gives the memory to MPI and does not look into it: a
// CUDA-aware MPI gets the GPU's own memory, and nothing is copied.
template <class Operate>
void for_mpi(const Stream& stream, const Tensor& tensor, Operate operate) {
  if (tensor.device().is_cpu() || !mpi_is_cuda_aware()) {
    on_host(stream, tensor, operate);
    return;
  }
  stream.synchronize();  // MPI knows nothing of our streams: the tensor must be complete
  operate(std::span<float>(tensor.data(), tensor.numel()));
}

}  // namespace dist
