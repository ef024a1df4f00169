// Emulates NCCL: collectives run over MPI when their stream reaches them.
//
// The emulation follows NCCL's rules. Calls only queue work. Collectives of a communicator
// match in the order in which their streams run them. Sends and receives wait for each other
// unless they are in one group. Two ranks may not share a GPU. The emulation needs
// MPI_THREAD_MULTIPLE, because the streams are threads.
#include "common/watch.hpp"
#include "tests/emulation/device_memory.hpp"
#include "tests/emulation/nccl_transfers.hpp"

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::string last_error;

ncclResult_t fail(ncclResult_t result, const std::string& text) {
  last_error = text;
  return result;
}

ncclResult_t too_early() {
  return fail(ncclInvalidUsage, "the previous call on this communicator is still in progress");
}

thread_local int group_depth = 0;
thread_local std::vector<Transfer> group;
thread_local cudaStream_t group_stream = nullptr;
thread_local ncclComm_t group_comm = nullptr;

// The stream's thread runs the transfers when it reaches them, under the name of the call that
// queued them.
ncclResult_t queue(const char* call, ncclComm_t comm, cudaStream_t stream,
                   std::vector<Transfer> transfers) {
  ++comm->queued;
  emulation::enqueue(stream, [call, comm, transfers = std::move(transfers)] {
    const dist::CallScope scope(call);
    if (run(comm, transfers)) {
      for (const Transfer& transfer : transfers) transfer.finish();
    } else {
      abandon(transfers);
    }
    --comm->queued;
  });
  return comm->start();
}

// Queues the transfer alone, or adds it to the open group.
ncclResult_t send_or_receive(const char* call, Transfer transfer, ncclComm_t comm,
                             cudaStream_t stream) {
  if (comm->polls_left > 0) return too_early();
  if (group_depth == 0) return queue(call, comm, stream, {std::move(transfer)});
  group.push_back(std::move(transfer));
  group_stream = stream;
  group_comm = comm;
  return ncclSuccess;
}

// MPI reads only host memory, and only streams may touch device memory.
template <class T = float>
std::vector<T> copy_of(const void* device, std::size_t count) {
  std::vector<T> host(count);
  std::memcpy(host.data(), device, count * sizeof(T));
  return host;
}

constexpr int kTag = 0;

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclInProgress: return "operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  return last_error.c_str();
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  int world = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (size != world) {
    return fail(ncclInvalidArgument, "emulated NCCL connects all ranks or none");
  }
  auto* const made = new ncclComm;
  made->size = size;
  made->blocking = config->blocking != 0;
  *comm = made;
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made->mpi);
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
  const int mine = emulation::current_device();
  MPI_Allgather(&mine, 1, MPI_INT, devices.data(), 1, MPI_INT, made->mpi);
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
  return made->start();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->polls_left > 0 ? ncclInProgress : ncclSuccess;
  if (comm->polls_left > 0) --comm->polls_left;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->polls_left > 0) return too_early();
  while (comm->queued > 0) std::this_thread::yield();
  return comm->start();
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->polls_left > 0) return too_early();
  MPI_Win_free(&comm->window);
  MPI_Comm_free(&comm->mpi);
  delete comm;
  return ncclSuccess;
}
// The communicator is not destroyed, because queued work may still use it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++*comm->aborts;
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t, void** handle) {
  if (!emulation::is_device(memory)) return fail(ncclInvalidArgument, "not device memory");
  comm->registered.insert(memory);
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  // If the memory were freed first, the library would keep an invalid mapping.
  if (comm->registered.erase(handle) == 0 || !emulation::is_device(handle)) {
    std::fprintf(stderr, "emulated NCCL: deregistration of memory that is not registered\n");
    std::abort();
  }
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  cudaFree(memory);
  return ncclSuccess;
}

namespace {

template <class T>
ncclResult_t all_reduce(const void* from, void* to, std::size_t count, MPI_Datatype type,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const auto data = std::make_shared<std::vector<T>>();
  return queue("ncclAllReduce", comm, stream,
               {{[=] {
                   *data = copy_of<T>(from, count);
                   MPI_Request request = MPI_REQUEST_NULL;
                   MPI_Iallreduce(MPI_IN_PLACE, data->data(), static_cast<int>(count), type,
                                  op == ncclMax ? MPI_MAX : MPI_SUM, comm->mpi, &request);
                   return request;
                 },
                 [=] {
                   if (op == ncclAvg) {
                     for (T& value : *data) value /= static_cast<T>(comm->size);
                   }
                   std::memcpy(to, data->data(), count * sizeof(T));
                 }}});
}

}  // namespace

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (comm->polls_left > 0) return too_early();
  return type == ncclDouble ? all_reduce<double>(from, to, count, MPI_DOUBLE, op, comm, stream)
                            : all_reduce<float>(from, to, count, MPI_FLOAT, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  if (comm->polls_left > 0) return too_early();
  const auto data = std::make_shared<std::vector<float>>();
  return queue("ncclBroadcast", comm, stream,
               {{[=] {
                   *data = copy_of(from, count);
                   MPI_Request request = MPI_REQUEST_NULL;
                   MPI_Ibcast(data->data(), static_cast<int>(count), MPI_FLOAT, root, comm->mpi,
                              &request);
                   return request;
                 },
                 [=] { std::memcpy(to, data->data(), count * sizeof(float)); }}});
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const auto data = std::make_shared<std::vector<float>>();
  // The send is synchronous, because in NCCL a single send of any size waits for its receive.
  return send_or_receive("ncclSend",
                         {[=] {
                            *data = copy_of(from, count);
                            MPI_Request request = MPI_REQUEST_NULL;
                            MPI_Issend(data->data(), static_cast<int>(count), MPI_FLOAT, peer,
                                       kTag, comm->mpi, &request);
                            return request;
                          },
                          [data] {}},
                         comm, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const auto data = std::make_shared<std::vector<float>>(count);
  return send_or_receive("ncclRecv",
                         {[=] {
                            MPI_Request request = MPI_REQUEST_NULL;
                            MPI_Irecv(data->data(), static_cast<int>(count), MPI_FLOAT, peer,
                                      kTag, comm->mpi, &request);
                            return request;
                          },
                          [=] { std::memcpy(to, data->data(), count * sizeof(float)); }},
                         comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0 || group.empty()) return ncclSuccess;
  return queue("ncclGroup", group_comm, group_stream, std::exchange(group, {}));
}
