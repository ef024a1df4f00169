// How MPI's calls are observed and forwarded. The profiling interface (MPI standard, chapter
// "Tool Support") gives every MPI_X a second name, PMPI_X, so that we may define MPI_X
// ourselves. The wrap_*.cpp files do so: each MPI_X says what it starts, and calls PMPI_X.
#pragma once

#include "tools/watch/observe/call_hooks.hpp"
#include "tools/watch/wait/patience.hpp"

#include <array>
#include <cstddef>

namespace dist::watch {

// What a call starts: a message, as in the call's parameters, ...
struct Message {
  OperationKind kind;
  const void* data;  // what a send sends
  int peer, tag, count;
  MPI_Datatype type;
  MPI_Comm comm;
};

// ... or a collective, with `count` elements of `type` as one rank's share.
struct Collective {
  MPI_Comm comm;
  int root = kNoRoot;
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

inline Operation start(Call call, const Message& message) {
  return start_message(message.kind, call, message.data, message.peer, message.tag,
                       message.count, message.type, message.comm);
}
inline Operation start(Call call, const Collective& of) {
  return start_collective(call, of.comm, bytes_of_message(of.count, of.type), of.root);
}

// For a call that returns once all that it has `started` is done. forward(status) makes MPI's
// call: the watch needs the status of a receive even if the caller ignores it.
template <class Started, std::size_t N, class Forward>
int observed(Call call, const Started (&started)[N], MPI_Status* status, Forward forward) {
  const CallThatWaits may_sleep;
  if (!observing()) return forward(status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  std::array<Operation, N> operations;
  for (std::size_t i = 0; i < N; ++i) operations[i] = start(call, started[i]);
  const Observation observation(call, operations);
  const int result = forward(status);
  if (result == MPI_SUCCESS) {
    for (const Operation& operation : operations) finish(operation, *status);
  }
  return result;
}
// The same for a call without a status.
template <class Started, class Forward>
int observed(Call call, const Started& started, Forward forward) {
  return observed(call, {started}, MPI_STATUS_IGNORE, [&](MPI_Status*) { return forward(); });
}

// For a call that starts what a later call completes with this request.
template <class Started, class Forward>
int observed_start(Call call, const Started& started, const MPI_Request* request,
                   Forward forward) {
  if (!observing()) return forward();
  const Operation operation = start(call, started);
  const Observation observation(call, {&operation, 1});
  const int result = forward();
  if (result == MPI_SUCCESS) keep_request(*request, operation);
  return result;
}

}  // namespace dist::watch
