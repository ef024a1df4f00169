// Emulates NCCL: collectives run over MPI when their stream reaches them. They call MPI by its
// PMPI_ names, which the watch does not see, because it cannot see into NCCL either.
//
// The emulation follows NCCL's rules. Calls only queue work. Collectives of a communicator
// match in the order in which their streams run them. Sends and receives wait for each other
// unless they are in one group. Two ranks may not share a GPU. The emulation needs
// MPI_THREAD_MULTIPLE, because the streams are threads.
//
//   EMULATED_NO_PEERS    1: the GPUs of two ranks cannot reach each other
//   EMULATED_NCCL_FAULT  "R:N" breaks a link of rank R in its N-th call
#include "tests/emulation/nccl_transfers.hpp"
#include "tests/emulation/runtime.hpp"

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kTag = 0;

thread_local std::vector<Transfer> group;
thread_local cudaStream_t group_stream = nullptr;
thread_local ncclComm_t group_comm = nullptr;
thread_local bool group_failed = false;
thread_local const char* group_call = "";

// Starts to connect to the peers of `transfers` that comm has not connected to before.
std::vector<MPI_Request> connect_to_peers(ncclComm_t comm,
                                          const std::vector<Transfer>& transfers) {
  std::vector<MPI_Request> requests;
  for (const Transfer& transfer : transfers) {
    if (!comm->connected.insert(transfer.peer).second) continue;
    if (transfer.peer == kRing) {
      emulation::start_slowly();
      PMPI_Ibarrier(comm->setup, &requests.emplace_back());
      continue;
    }
    constexpr int kNoBytes = 0;
    PMPI_Issend(nullptr, kNoBytes, MPI_CHAR, transfer.peer, kTag, comm->setup,
                &requests.emplace_back());
    PMPI_Irecv(nullptr, kNoBytes, MPI_CHAR, transfer.peer, kTag, comm->setup,
               &requests.emplace_back());
  }
  return requests;
}

// The stream's thread runs the transfers when it reaches them.
ncclResult_t queue(const char* call, ncclComm_t comm, cudaStream_t stream,
                   std::vector<Transfer> transfers) {
  const CallOf using_it(comm, call);
  if (emulation::device_of_stream(stream) != comm->device) {
    return fail(ncclUnhandledCudaError, "the stream belongs to a different GPU");
  }
  if (comm->revoked) return fail(ncclInvalidUsage, "the communicator was revoked");
  static const bool no_peers = emulation::environment_number("EMULATED_NO_PEERS", 0) != 0;
  if (no_peers && comm->size > 1) {
    return fail(ncclUnhandledCudaError,
                "Cuda failure 217 'peer access is not supported between these two devices'");
  }
  const ncclResult_t connected = comm->connect(connect_to_peers(comm, transfers));
  if (connected != ncclSuccess) return connected;
  const bool captures = emulation::resolve(stream)->point.capture != nullptr;
  const Token& user = captures ? comm->captured : comm->queued;
  auto work = [comm, user, transfers = std::move(transfers)] {
    static std::atomic<int> calls = 0;
    if (emulation::is_chosen("EMULATED_NCCL_FAULT", calls)) comm->error = ncclRemoteError;
    if (run(comm, transfers)) {
      for (const Transfer& transfer : transfers) transfer.finish();
    } else {
      abandon(transfers);
    }
  };
  emulation::enqueue(stream, std::move(work));
  return ncclSuccess;
}

// Queues the transfer alone, or adds it to the open group.
ncclResult_t queue_or_group(const char* call, ncclComm_t comm, cudaStream_t stream,
                            Transfer transfer) {
  if (transfer.peer != kRing && (transfer.peer < 0 || transfer.peer >= comm->size)) {
    group_failed = group_depth > 0;
    return fail(ncclInvalidArgument, "there is no rank " + std::to_string(transfer.peer));
  }
  if (group_depth == 0) return queue(call, comm, stream, {std::move(transfer)});
  group_call = transfer.peer == kRing ? call : "ncclGroup";
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

// What a collective reads while it runs, and what it has received.
template <class T>
struct Data {
  std::vector<T> sent, received;

  // NCCL reads and writes its buffers all the time. So if the program changes `from` before the
  // end, the result is neither of the old numbers nor of the new ones.
  void write(const void* from, void* to) {
    const bool torn = std::memcmp(sent.data(), from, sent.size() * sizeof(T)) != 0;
    if (torn) received.back() = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(to, received.data(), received.size() * sizeof(T));
  }
};

// A collective: reads `sent` numbers and writes `received` numbers, if this rank receives any,
// divided by `divisor`. start(data, request) begins it.
template <class T = float, class Start>
ncclResult_t collective(const char* call, const void* from, std::size_t sent, void* to,
                        std::size_t received, ncclComm_t comm, cudaStream_t stream, Start start,
                        int divisor = 1) {
  emulation::check_memory(stream, from, call);
  emulation::check_memory(stream, to, call);
  const auto data = std::make_shared<Data<T>>();
  return queue_or_group(call, comm, stream,
                        {kRing,
                         [=] {
                           data->sent = copy_of<T>(from, sent);
                           data->received.resize(received);
                           MPI_Request request = MPI_REQUEST_NULL;
                           start(*data, &request);
                           return request;
                         },
                         [=] {
                           if (received == 0) return;
                           for (T& number : data->received) number /= static_cast<T>(divisor);
                           data->write(from, to);
                         },
                         {token_of(from), token_of(to)}});
}

template <class T>
ncclResult_t all_reduce(const void* from, void* to, std::size_t count, MPI_Datatype type,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const auto start = [=](Data<T>& data, MPI_Request* request) {
    PMPI_Iallreduce(data.sent.data(), data.received.data(), static_cast<int>(count), type,
                    op == ncclMax ? MPI_MAX : MPI_SUM, comm->mpi, request);
  };
  return collective<T>("ncclAllReduce", from, count, to, count, comm, stream, start,
                       op == ncclAvg ? comm->size : 1);
}

}  // namespace

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return type == ncclDouble ? all_reduce<double>(from, to, count, MPI_DOUBLE, op, comm, stream)
                            : all_reduce<float>(from, to, count, MPI_FLOAT, op, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBroadcast", from, count, to, count, comm, stream,
                    [=](Data<float>& data, MPI_Request* request) {
                      data.received = data.sent;
                      PMPI_Ibcast(data.received.data(), static_cast<int>(count), MPI_FLOAT,
                                  root, comm->mpi, request);
                    });
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const CallOf using_it(comm, "ncclReduce");
  int rank = 0;
  PMPI_Comm_rank(comm->mpi, &rank);
  const bool receives = rank == root;
  const auto start = [=](Data<float>& data, MPI_Request* request) {
    PMPI_Ireduce(data.sent.data(), data.received.data(), static_cast<int>(count), MPI_FLOAT,
                 op == ncclMax ? MPI_MAX : MPI_SUM, root, comm->mpi, request);
  };
  return collective("ncclReduce", from, count, to, receives ? count : 0, comm, stream, start,
                    op == ncclAvg ? comm->size : 1);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t all = count * static_cast<std::size_t>(comm->size);
  const auto start = [=](Data<float>& data, MPI_Request* request) {
    PMPI_Ireduce_scatter_block(data.sent.data(), data.received.data(), static_cast<int>(count),
                               MPI_FLOAT, op == ncclMax ? MPI_MAX : MPI_SUM, comm->mpi,
                               request);
  };
  return collective("ncclReduceScatter", from, all, to, count, comm, stream, start,
                    op == ncclAvg ? comm->size : 1);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t all = count * static_cast<std::size_t>(comm->size);
  return collective("ncclAllGather", from, count, to, all, comm, stream,
                    [=](Data<float>& data, MPI_Request* request) {
                      PMPI_Iallgather(data.sent.data(), static_cast<int>(count), MPI_FLOAT,
                                      data.received.data(), static_cast<int>(count), MPI_FLOAT,
                                      comm->mpi, request);
                    });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  emulation::check_memory(stream, from, "ncclSend");
  const auto data = std::make_shared<std::vector<float>>();
  // The send is synchronous, because in NCCL a single send of any size waits for its receive.
  return queue_or_group("ncclSend", comm, stream,
                        {peer,
                         [=] {
                           *data = copy_of(from, count);
                           MPI_Request request = MPI_REQUEST_NULL;
                           PMPI_Issend(data->data(), static_cast<int>(count), MPI_FLOAT, peer,
                                       kTag, comm->mpi, &request);
                           return request;
                         },
                         [data] {},
                         {token_of(from)}});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  emulation::check_memory(stream, to, "ncclRecv");
  const auto data = std::make_shared<std::vector<float>>(count);
  return queue_or_group("ncclRecv", comm, stream,
                        {peer,
                         [=] {
                           MPI_Request request = MPI_REQUEST_NULL;
                           PMPI_Irecv(data->data(), static_cast<int>(count), MPI_FLOAT, peer,
                                      kTag, comm->mpi, &request);
                           return request;
                         },
                         [=] { std::memcpy(to, data->data(), count * sizeof(float)); },
                         {token_of(to)}});
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group_depth > 0) return ncclSuccess;
  const auto transfers = std::exchange(group, {});
  if (std::exchange(group_failed, false)) return ncclInvalidArgument;
  return transfers.empty() ? ncclSuccess
                           : queue(group_call, group_comm, group_stream, transfers);
}
