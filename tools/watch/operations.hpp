// Counts the messages and collectives that calls start and wait for, and remembers them by
// request until they are done.
#pragma once

#include "tools/watch/board.hpp"

#include <mpi.h>

#include <cstddef>
#include <optional>

namespace dist::watch {

// One message or collective that a call starts or waits for.
struct Operation {
  OperationKind kind;
  Call call;
  std::int32_t peer;  // in MPI_COMM_WORLD; for a collective, its root or kEverybody
  std::int32_t tag;
  std::uint32_t comm;
  std::uint32_t number;
  std::uint64_t bytes;
  std::uint64_t log_id;

  bool operator==(const Operation&) const = default;
};

// Passed as the root of a collective that has no root.
constexpr int kNoRoot = -1;

// Each of these functions counts the operation, so it is called only once, before the MPI call.
Operation start_send(Call call, int dest, int tag, int count, MPI_Datatype type, MPI_Comm comm);
Operation start_receive(Call call, int source, int tag, int count, MPI_Datatype type,
                        MPI_Comm comm);
Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root);
// Takes the communicator's id, which outlives its handle.
Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes,
                           std::int32_t root_in_world);
// A probe does not count as a message.
Operation probe(Call call, int source, int tag, MPI_Comm comm);
// The size of `count` elements in bytes.
std::uint64_t bytes_of_message(int count, MPI_Datatype type);

// Called just before the wrapper of the completing call returns. Only a receive needs `status`.
void finish(const Operation& operation, const MPI_Status& status);

// Unfinished operations by request. Open MPI returns the same request for all sends that
// complete immediately, so a request may stand for several operations.
void keep_request(MPI_Request request, const Operation& operation);
// Returns one of the operations of `request`; skips the first `skip` of them.
std::optional<Operation> find_request(MPI_Request request, std::size_t skip = 0);
void forget_request(MPI_Request request, const Operation& operation);

}  // namespace dist::watch
