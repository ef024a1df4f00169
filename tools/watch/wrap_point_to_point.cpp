// MPI's messages, observed and forwarded. The profiling interface (MPI standard, chapter "Tool
// Support") gives every MPI_X a second name, PMPI_X, so that we may define MPI_X ourselves.
// Look at: what --strict uses instead of a send.
#include "tools/watch/observation.hpp"

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

}  // namespace

extern "C" {

int MPI_Send(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  return observed_send(Call::MPI_Send, strict() ? PMPI_Ssend : PMPI_Send, data, count, type,
                       dest, tag, comm);
}

int MPI_Ssend(const void* data, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm) {
  return observed_send(Call::MPI_Ssend, PMPI_Ssend, data, count, type, dest, tag, comm);
}

// This send is buffered on purpose, in the program's own memory, so strict mode does not change
// it.
int MPI_Bsend(const void* data, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm) {
  return observed_send(Call::MPI_Bsend, PMPI_Bsend, data, count, type, dest, tag, comm);
}

int MPI_Rsend(const void* data, int count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm) {
  return observed_send(Call::MPI_Rsend, PMPI_Rsend, data, count, type, dest, tag, comm);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return observed_isend(Call::MPI_Isend, strict() ? PMPI_Issend : PMPI_Isend, data, count, type,
                        dest, tag, comm, request);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return observed_isend(Call::MPI_Issend, PMPI_Issend, data, count, type, dest, tag, comm,
                        request);
}

int MPI_Ibsend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return observed_isend(Call::MPI_Ibsend, PMPI_Ibsend, data, count, type, dest, tag, comm,
                        request);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  if (!observing()) return PMPI_Recv(data, count, type, source, tag, comm, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Operation receive = start_receive(Call::MPI_Recv, source, tag, count, type, comm);
  const Observation observation(Call::MPI_Recv, receive);
  const int result = PMPI_Recv(data, count, type, source, tag, comm, status);
  if (result == MPI_SUCCESS) finish(receive, *status);
  return result;
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
  const auto forward = strict() ? synchronous_sendrecv : PMPI_Sendrecv;
  if (!observing()) {
    return forward(out, out_count, out_type, dest, out_tag, in, in_count, in_type, source,
                   in_tag, comm, status);
  }
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  constexpr Call kCall = Call::MPI_Sendrecv;
  const std::array operations{start_send(kCall, dest, out_tag, out_count, out_type, comm),
                              start_receive(kCall, source, in_tag, in_count, in_type, comm)};
  const Observation observation(kCall, operations);
  const int result = forward(out, out_count, out_type, dest, out_tag, in, in_count, in_type,
                             source, in_tag, comm, status);
  if (result == MPI_SUCCESS) {
    finish(operations[0], {});
    finish(operations[1], *status);
  }
  return result;
}

int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int dest, int out_tag,
                         int source, int in_tag, MPI_Comm comm, MPI_Status* status) {
  if (!observing()) {
    return PMPI_Sendrecv_replace(data, count, type, dest, out_tag, source, in_tag, comm,
                                 status);
  }
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  constexpr Call kCall = Call::MPI_Sendrecv_replace;
  const std::array operations{start_send(kCall, dest, out_tag, count, type, comm),
                              start_receive(kCall, source, in_tag, count, type, comm)};
  const Observation observation(kCall, operations);
  const int result =
      PMPI_Sendrecv_replace(data, count, type, dest, out_tag, source, in_tag, comm, status);
  if (result == MPI_SUCCESS) {
    finish(operations[0], {});
    finish(operations[1], *status);
  }
  return result;
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
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Operation receive = start_receive(Call::MPI_Mprobe, source, tag, 0, MPI_BYTE, comm);
  const Observation observation(Call::MPI_Mprobe, receive);
  const int result = PMPI_Mprobe(source, tag, comm, message, status);
  if (result == MPI_SUCCESS) finish(receive, *status);
  return result;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                MPI_Status* status) {
  if (!observing()) return PMPI_Improbe(source, tag, comm, flag, message, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const int result = PMPI_Improbe(source, tag, comm, flag, message, status);
  if (result != MPI_SUCCESS) return result;
  if (*flag != 0) {
    const Operation receive = start_receive(Call::MPI_Improbe, source, tag, 0, MPI_BYTE, comm);
    const Observation observation(Call::MPI_Improbe, receive);
    finish(receive, *status);
  } else {
    const Operation asked = probe(Call::MPI_Improbe, source, tag, comm);
    note_polling(Call::MPI_Improbe, {&asked, 1});
  }
  return result;
}

int MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
              MPI_Status* status) {
  if (!observing()) return PMPI_Mrecv(data, count, type, message, status);
  const Observation observation(Call::MPI_Mrecv, std::span<const Operation>());
  return PMPI_Mrecv(data, count, type, message, status);
}

}  // extern "C"
