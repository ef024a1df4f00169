// Emulates NCCL's communicators and memory (nccl.cpp emulates the rest).
//
//   EMULATED_NCCL  the version, for example 23000 for 2.30.0
#include "tests/emulation/nccl_transfers.hpp"
#include "tests/emulation/runtime.hpp"

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
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
  *version = emulation::environment_number("EMULATED_NCCL", NCCL_VERSION_CODE);
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
  PMPI_Comm_size(MPI_COMM_WORLD, &world);
  if (size != world) {
    return fail(ncclInvalidArgument, "emulated NCCL connects all ranks or none");
  }
  auto* const made = new ncclComm;
  made->size = size;
  made->device = emulation::current_device();
  *comm = made;
  PMPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made->mpi);
  PMPI_Comm_dup(made->mpi, &made->setup);
  emulation::start_slowly();
  void* shared = nullptr;
  PMPI_Win_allocate_shared(rank == 0 ? sizeof(std::atomic<int>) : 0, 1, MPI_INFO_NULL,
                           made->mpi, &shared, &made->window);
  MPI_Aint bytes = 0;
  int unit = 0;
  PMPI_Win_shared_query(made->window, 0, &bytes, &unit, &shared);
  made->aborts =
      rank == 0 ? new (shared) std::atomic<int>(0) : static_cast<std::atomic<int>*>(shared);
  // Every rank must have rank 0's id and a GPU of its own.
  ncclUniqueId first = id;
  PMPI_Bcast(first.internal, sizeof(first.internal), MPI_CHAR, 0, made->mpi);
  int wrong_id = std::memcmp(&first, &id, sizeof(id)) != 0 ? 1 : 0;
  std::vector<int> devices(static_cast<std::size_t>(size));
  PMPI_Allgather(&made->device, 1, MPI_INT, devices.data(), 1, MPI_INT, made->mpi);
  PMPI_Allreduce(MPI_IN_PLACE, &wrong_id, 1, MPI_INT, MPI_MAX, made->mpi);
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
  if (comm->freed) emulation::stop("ncclCommGetAsyncError", "a communicator that was freed");
  *error = comm->error;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const CallOf using_it(comm, "ncclCommFinalize");
  if (comm->revoked) emulation::stop("ncclCommFinalize", "a communicator that was revoked");
  comm->finalized = true;
  // Waits for the work queued so far, and would wait for the end of each graph.
  const int current = emulation::current_device();
  cudaSetDevice(comm->device);
  cudaDeviceSynchronize();
  cudaSetDevice(current);
  if (is_used(comm->captured)) {
    emulation::stop("ncclCommFinalize", "a communicator that a graph still uses");
  }
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const CallOf using_it(comm, "ncclCommDestroy");
  if (is_used(comm->queued) || is_used(comm->captured)) {
    emulation::stop("ncclCommDestroy", "a communicator that work or a graph still uses");
  }
  comm->freed = true;
  if (*comm->aborts > 0) return ncclSuccess;  // not all ranks come here
  PMPI_Win_free(&comm->window);
  PMPI_Comm_free(&comm->setup);
  PMPI_Comm_free(&comm->mpi);
  return ncclSuccess;
}

// Ends all calls and all work, but frees nothing.
static void end_waits(ncclComm_t comm) {
  if (!comm->ended.exchange(true)) ++*comm->aborts;
  while (is_used(comm->queued)) std::this_thread::yield();
}

// As in NCCL, work that runs after the return waits again: replays of a graph.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const CallOf using_it(comm, "ncclCommRevoke");
  if (flags != NCCL_REVOKE_DEFAULT || comm->revoked || comm->finalized) {
    return fail(ncclInvalidArgument, "the communicator cannot be revoked");
  }
  comm->revoked = true;
  end_waits(comm);
  while (comm->running > 0) std::this_thread::yield();
  comm->ended = false;
  return ncclSuccess;
}

// Frees the communicator, but no MPI object, because other ranks may never do so.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->freed) emulation::stop("ncclCommAbort", "a communicator that was freed");
  if (group_depth > 0) return ncclSuccess;  // postponed to the end of the group
  if (comm->calls > 0) emulation::stop("ncclCommAbort", "a communicator in another call");
  end_waits(comm);
  // NCCL waits for the end of each graph, however long that takes, but after a revocation it
  // does not.
  constexpr std::chrono::seconds kForever{10};
  const auto began = std::chrono::steady_clock::now();
  while (is_used(comm->captured)) {
    if (comm->revoked || std::chrono::steady_clock::now() - began > kForever) {
      emulation::stop("ncclCommAbort", "a communicator that a graph still uses");
    }
    std::this_thread::yield();
  }
  comm->freed = true;
  return ncclSuccess;
}

namespace {

struct NcclMemory {
  std::size_t bytes;
  Token token = std::make_shared<int>();
};
std::mutex memory_mutex;
auto& nccl_memory = *new std::map<const char*, NcclMemory>;

void require_unused(const void* memory, const char* call) {
  const Token token = token_of(memory);
  if (token.use_count() > 2) emulation::stop(call, "memory that work or a graph still uses");
}

}  // namespace

Token token_of(const void* memory) {
  const auto* const address = static_cast<const char*>(memory);
  const std::lock_guard lock(memory_mutex);
  auto after = nccl_memory.upper_bound(address);
  if (after == nccl_memory.begin()) return nullptr;
  const auto& [begin, block] = *std::prev(after);
  return address < begin + block.bytes ? block.token : nullptr;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (cudaMalloc(memory, bytes) != cudaSuccess) return ncclInvalidArgument;
  const std::lock_guard lock(memory_mutex);
  nccl_memory[static_cast<char*>(*memory)] = {bytes};
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t, void** handle) {
  const CallOf using_it(comm, "ncclCommRegister");
  if (emulation::owner_of(memory) != comm->device)
    return fail(ncclInvalidArgument, "not device memory");
  comm->registered.insert(memory);
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  const CallOf using_it(comm, "ncclCommDeregister");
  require_unused(handle, "ncclCommDeregister");
  // If the memory were freed first, the library would keep an invalid mapping.
  if (comm->registered.erase(handle) == 0 || !emulation::owner_of(handle)) {
    std::fprintf(stderr, "emulated NCCL: deregistration of memory that is not registered\n");
    std::abort();
  }
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  if (token_of(memory) == nullptr) {
    emulation::stop("ncclMemFree", "memory that ncclMemAlloc did not allocate");
  }
  require_unused(memory, "ncclMemFree");
  {
    const std::lock_guard lock(memory_mutex);
    nccl_memory.erase(static_cast<char*>(memory));
  }
  cudaFree(memory);
  return ncclSuccess;
}
