// MPI's messages, observed and forwarded. The profiling interface (MPI standard, chapter "Tool
// Support") gives every MPI_X a second name, PMPI_X, so that we may define MPI_X ourselves.
// Look at: what --strict uses instead of a send.
#include "tools/watch/call_hooks.hpp"

#include <array>

using namespace dist::watch;

namespace {

// All blocking sends have the same signature.
using SendFunction = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm);

int observed_send(Call call, SendFunction forward, const void* data, int count,
                  MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  if (!observing()) return forward(data, count, type, dest, tag, comm);
  const Operation send = start_send(call, dest, tag, count, type, comm);
  const Observation observation(call, send);
  const int result = forward(data, count, type, dest, tag, comm);
  if (result == MPI_SUCCESS) finish(send, {});
  return result;
}

using StartFunction = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

int observed_isend(Call call, StartFunction forward, const void* data, int count,
                   MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if (!observing()) return forward(data, count, type, dest, tag, comm, request);
  const Operation send = start_send(call, dest, tag, count, type, comm);
  const Observation observation(call, send);
  const int result = forward(data, count, type, dest, tag, comm, request);
  if (result == MPI_SUCCESS) keep_request(*request, send);
  return result;
}

// MPI_Sendrecv for --strict. Nothing is buffered, so each send waits for its receive. As
// MPI_Sendrecv promises, the send and the receive both start before the function waits for
// either.
int synchronous_sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest,
                         int out_tag, void* in, int in_count, MPI_Datatype in_type, int source,
                         int in_tag, MPI_Comm comm, MPI_Status* status) {
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int result = PMPI_Issend(out, out_count, out_type, dest, out_tag, comm, requests.data());
  if (result != MPI_SUCCESS) return result;
  result = PMPI_Irecv(in, in_count, in_type, source, in_tag, comm, requests.data() + 1);
  if (result != MPI_SUCCESS) return result;
  std::array<MPI_Status, 2> statuses{};
  result = PMPI_Waitall(2, requests.data(), statuses.data());
  if (status != MPI_STATUS_IGNORE) *status = statuses[1];
  if (result != MPI_ERR_IN_STATUS) return result;
  return statuses[1].MPI_ERROR != MPI_SUCCESS ? statuses[1].MPI_ERROR : statuses[0].MPI_ERROR;
}

// `forward` takes the status, which the watch needs even if the caller ignores it.
template <class Forward>
int observed_receive(const Operation& receive, MPI_Status* status, Forward forward) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Observation observation(receive.call, receive);
  const int result = forward(status);
  if (result == MPI_SUCCESS) finish(receive, *status);
  return result;
}

template <class Forward>
int observed_exchange(const Operation& send, const Operation& receive, MPI_Status* status,
                      Forward forward) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Observation observation(send.call, std::array{send, receive});
  const int result = forward(status);
  if (result == MPI_SUCCESS) {
    finish(send, {});
    finish(receive, *status);
  }
  return result;
}

}  // namespace

extern "C" {

// clang-format off
#define SEND(NAME, FORWARD)                                                                       \
  int NAME(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {    \
    return observed_send(Call::NAME, FORWARD, data, count, type, dest, tag, comm);                \
  }
#define START_OF_SEND(NAME, FORWARD)                                                              \
  int NAME(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,      \
           MPI_Request* request) {                                                                \
    return observed_isend(Call::NAME, FORWARD, data, count, type, dest, tag, comm, request);      \
  }
// clang-format on
SEND(MPI_Send, strict() ? PMPI_Ssend : PMPI_Send)
SEND(MPI_Ssend, PMPI_Ssend)
SEND(MPI_Rsend, PMPI_Rsend)
START_OF_SEND(MPI_Isend, strict() ? PMPI_Issend : PMPI_Isend)
START_OF_SEND(MPI_Issend, PMPI_Issend)
// These are buffered on purpose, in the program's own memory, so strict mode does not change
// them.
SEND(MPI_Bsend, PMPI_Bsend)
START_OF_SEND(MPI_Ibsend, PMPI_Ibsend)

int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  if (!observing()) return PMPI_Recv(data, count, type, source, tag, comm, status);
  return observed_receive(start_receive(Call::MPI_Recv, source, tag, count, type, comm), status,
                          [=](MPI_Status* known) {
                            return PMPI_Recv(data, count, type, source, tag, comm, known);
                          });
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (!observing()) return PMPI_Irecv(data, count, type, source, tag, comm, request);
  const Operation receive = start_receive(Call::MPI_Irecv, source, tag, count, type, comm);
  const Observation observation(Call::MPI_Irecv, receive);
  const int result = PMPI_Irecv(data, count, type, source, tag, comm, request);
  if (result == MPI_SUCCESS) keep_request(*request, receive);
  return result;
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest, int out_tag,
                 void* in, int in_count, MPI_Datatype in_type, int source, int in_tag,
                 MPI_Comm comm, MPI_Status* status) {
  const auto forward = [=, send_and_receive = strict() ? synchronous_sendrecv
                                                       : PMPI_Sendrecv](MPI_Status* known) {
    return send_and_receive(out, out_count, out_type, dest, out_tag, in, in_count, in_type,
                            source, in_tag, comm, known);
  };
  if (!observing()) return forward(status);
  constexpr Call kCall = Call::MPI_Sendrecv;
  return observed_exchange(start_send(kCall, dest, out_tag, out_count, out_type, comm),
                           start_receive(kCall, source, in_tag, in_count, in_type, comm),
                           status, forward);
}

int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int dest, int out_tag,
                         int source, int in_tag, MPI_Comm comm, MPI_Status* status) {
  const auto forward = [=](MPI_Status* known) {
    return PMPI_Sendrecv_replace(data, count, type, dest, out_tag, source, in_tag, comm, known);
  };
  if (!observing()) return forward(status);
  constexpr Call kCall = Call::MPI_Sendrecv_replace;
  return observed_exchange(start_send(kCall, dest, out_tag, count, type, comm),
                           start_receive(kCall, source, in_tag, count, type, comm), status,
                           forward);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!observing()) return PMPI_Probe(source, tag, comm, status);
  const Observation observation(Call::MPI_Probe, probe(Call::MPI_Probe, source, tag, comm));
  return PMPI_Probe(source, tag, comm, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  const int result = PMPI_Iprobe(source, tag, comm, flag, status);
  if (!observing() || result != MPI_SUCCESS) return result;
  const Operation asked = probe(Call::MPI_Iprobe, source, tag, comm);
  if (*flag != 0) {
    const Observation observation(Call::MPI_Iprobe, asked);
  } else {
    note_polling(Call::MPI_Iprobe, {&asked, 1});
  }
  return result;
}

// A matched probe takes the message, so it counts as received from here on.
int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (!observing()) return PMPI_Mprobe(source, tag, comm, message, status);
  return observed_receive(
      start_receive(Call::MPI_Mprobe, source, tag, 0, MPI_BYTE, comm), status,
      [=](MPI_Status* known) { return PMPI_Mprobe(source, tag, comm, message, known); });
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                MPI_Status* status) {
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const int result = PMPI_Improbe(source, tag, comm, flag, message, status);
  if (!observing() || result != MPI_SUCCESS) return result;
  if (*flag != 0) {
    return observed_receive(start_receive(Call::MPI_Improbe, source, tag, 0, MPI_BYTE, comm),
                            status, [](MPI_Status*) { return MPI_SUCCESS; });
  }
  const Operation asked = probe(Call::MPI_Improbe, source, tag, comm);
  note_polling(Call::MPI_Improbe, {&asked, 1});
  return result;
}

int MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
              MPI_Status* status) {
  if (!observing()) return PMPI_Mrecv(data, count, type, message, status);
  const Observation observation(Call::MPI_Mrecv, std::span<const Operation>());
  return PMPI_Mrecv(data, count, type, message, status);
}

}  // extern "C"

#undef SEND
#undef START_OF_SEND
