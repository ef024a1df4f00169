// Whether MPI accepts pointers to GPU memory.
#pragma once

#include "common/device.hpp"

#include <string>

namespace dist {

// Returns the MPI library's own answer (MPIX_Query_cuda_support), or false in a build without
// CUDA. The Open MPI of Debian and Ubuntu reports false: its MPI_Send crashes on GPU memory.
bool mpi_is_cuda_aware();

// Returns where MPI's buffers for tensors on `device` must be: on that device or on the CPU.
Device message_device(Device device);

// Returns "; MPI is not CUDA-aware and gets pinned host copies" or the opposite statement, or
// an empty string for tensors on the CPU.
std::string describe_messages(Device device);

}  // namespace dist
