// Whether MPI can read GPU memory. If it only says so, the first message crashes.
#pragma once

namespace dist {

// The value of a variable of MPI's (MPI standard, chapter "Tool Support", control variables),
// or `otherwise` if this MPI has no such variable. Called after MPI_Init.
bool mpi_variable(const char* name, bool otherwise);

// Open MPI 4.1 says only whether it was compiled with CUDA. That may be switched off, or a UCX
// without CUDA may carry the messages. No MPI can read the memory of an emulated GPU.
bool is_cuda_aware(bool says_so, bool ucx, bool ucx_has_cuda);

// Asks MPI, if it has the function that answers this. Called after MPI_Init.
bool mpi_is_cuda_aware();

}  // namespace dist
