// Emulates NCCL's communicators and memory (nccl.cpp emulates the rest).
//
//   EMULATED_NCCL          the version, for example 23000 for 2.30.0
//   EMULATED_NCCL_INIT_MS  how long ncclCommInitRank takes
#include "tests/emulation/device_memory.hpp"
#include "tests/emulation/nccl_transfers.hpp"
#include "tests/emulation/runtime.hpp"

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  return nccl_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  for (char& byte : id->internal) byte = static_cast<char>(std::rand());
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  const char* other = std::getenv("EMULATED_NCCL");  // 23000 is 2.30.0
  *version = other != nullptr ? std::atoi(other) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

static bool ranks_may_share_a_gpu() {
  int version = 0;
  ncclGetVersion(&version);
  const char* asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return version >= 23000 && asked != nullptr && std::string(asked) == "1";
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  int world = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (size != world) {
    return fail(ncclInvalidArgument, "emulated NCCL connects all ranks or none");
  }
  auto* const made = new ncclComm;
  made->size = size;
  made->device = emulation::current_device();
  *comm = made;
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made->mpi);
  MPI_Comm_dup(made->mpi, &made->setup);
  if (const char* ms = std::getenv("EMULATED_NCCL_INIT_MS")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(ms)));
  }
  void* shared = nullptr;
  MPI_Win_allocate_shared(rank == 0 ? sizeof(std::atomic<int>) : 0, 1, MPI_INFO_NULL, made->mpi,
                          &shared, &made->window);
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_shared_query(made->window, 0, &bytes, &unit, &shared);
  made->aborts =
      rank == 0 ? new (shared) std::atomic<int>(0) : static_cast<std::atomic<int>*>(shared);
  // Every rank must have rank 0's id and a GPU of its own.
  ncclUniqueId first = id;
  MPI_Bcast(first.internal, sizeof(first.internal), MPI_CHAR, 0, made->mpi);
  int wrong_id = std::memcmp(&first, &id, sizeof(id)) != 0 ? 1 : 0;
  std::vector<int> devices(static_cast<std::size_t>(size));
  MPI_Allgather(&made->device, 1, MPI_INT, devices.data(), 1, MPI_INT, made->mpi);
  MPI_Allreduce(MPI_IN_PLACE, &wrong_id, 1, MPI_INT, MPI_MAX, made->mpi);
  if (wrong_id != 0) return fail(ncclInvalidArgument, "the ranks have different unique ids");
  for (int a = 0; a < size && !ranks_may_share_a_gpu(); ++a) {
    for (int b = 0; b < a; ++b) {
      if (devices[static_cast<std::size_t>(a)] == devices[static_cast<std::size_t>(b)]) {
        return fail(ncclInvalidUsage, "Duplicate GPU detected: rank " + std::to_string(b) +
                                          " and rank " + std::to_string(a));
      }
    }
  }
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->error;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  // Waits for the work queued so far.
  const int current = emulation::current_device();
  cudaSetDevice(comm->device);
  cudaDeviceSynchronize();
  cudaSetDevice(current);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->users.use_count() > 1) {
    emulation::stop("ncclCommDestroy", "a communicator that work or a graph still uses");
  }
  MPI_Win_free(&comm->window);
  MPI_Comm_free(&comm->setup);
  MPI_Comm_free(&comm->mpi);
  delete comm;
  return ncclSuccess;
}
// The communicator is not destroyed, because queued work may still use it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (group_depth > 0) return ncclSuccess;  // postponed to the end of the group
  ++*comm->aborts;
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t, void** handle) {
  if (emulation::owner_of(memory) != comm->device)
    return fail(ncclInvalidArgument, "not device memory");
  comm->registered.insert(memory);
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  // If the memory were freed first, the library would keep an invalid mapping.
  if (comm->registered.erase(handle) == 0 || !emulation::owner_of(handle)) {
    std::fprintf(stderr, "emulated NCCL: deregistration of memory that is not registered\n");
    std::abort();
  }
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  cudaFree(memory);
  return ncclSuccess;
}
