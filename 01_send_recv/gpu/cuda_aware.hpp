// Whether MPI can be given a pointer to GPU memory.
#pragma once

#include "common/device.hpp"

#include <string>

namespace dist {

// What the MPI library says about itself (MPIX_Query_cuda_support); false in a build without
// CUDA. Debian's and Ubuntu's say no: a device pointer given to their MPI_Send is a
// segmentation fault.
bool mpi_is_cuda_aware();

// Where memory must lie that MPI sends or receives for tensors on `device`: there, or on the
// CPU.
Device message_device(Device device);

// "; MPI gets pinned host copies: it is not CUDA-aware", or the opposite; empty for tensors on
// the CPU, where there is nothing to say.
std::string describe_messages(Device device);

}  // namespace dist
