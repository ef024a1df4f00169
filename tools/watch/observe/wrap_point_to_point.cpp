// MPI's messages. Look at: what --strict uses instead of a send.
#include "tools/watch/observe/wrap.hpp"

using namespace dist::watch;

namespace {

using Kind = OperationKind;

bool strict() {
  return is_on(kStrict);
}

// All sends have the same parameters; `work` makes MPI's call.
int send(Call call, decltype(&PMPI_Send) work, const void* data, int n, MPI_Datatype t,
         int dest, int tag, MPI_Comm comm) {
  return observed(call, Message{Kind::send, data, dest, tag, n, t, comm},
                  [=] { return work(data, n, t, dest, tag, comm); });
}
int start_send(Call call, decltype(&PMPI_Isend) work, const void* data, int n, MPI_Datatype t,
               int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  return observed_start(call, Message{Kind::send, data, dest, tag, n, t, comm}, request,
                        [=] { return work(data, n, t, dest, tag, comm, request); });
}

// MPI_Sendrecv with a synchronous send. As MPI_Sendrecv promises, the send and the receive both
// start before the function waits for either.
int synchronous_sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest,
                         int out_tag, void* in, int in_count, MPI_Datatype in_type, int source,
                         int in_tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request receiving = MPI_REQUEST_NULL, sending = MPI_REQUEST_NULL;
  // The receive is only prepared before the send starts, so a wrong argument of either leaves
  // no message behind that nobody receives, and no receive that takes somebody's next message.
  int result = PMPI_Recv_init(in, in_count, in_type, source, in_tag, comm, &receiving);
  if (result != MPI_SUCCESS) return result;
  result = PMPI_Issend(out, out_count, out_type, dest, out_tag, comm, &sending);
  if (result == MPI_SUCCESS) {
    PMPI_Start(&receiving);
    result = PMPI_Wait(&receiving, status);
    // Wait for both, even if the first one failed: until then, the data belongs to MPI.
    const int sent = PMPI_Wait(&sending, MPI_STATUS_IGNORE);
    if (result == MPI_SUCCESS) result = sent;
  }
  PMPI_Request_free(&receiving);
  return result;
}

}  // namespace

extern "C" {

int MPI_Send(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm) {
  return send(Call::MPI_Send, strict() ? PMPI_Ssend : PMPI_Send, data, n, t, dest, tag, comm);
}
int MPI_Ssend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm) {
  return send(Call::MPI_Ssend, PMPI_Ssend, data, n, t, dest, tag, comm);
}
int MPI_Rsend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm) {
  return send(Call::MPI_Rsend, PMPI_Rsend, data, n, t, dest, tag, comm);
}
int MPI_Isend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return start_send(Call::MPI_Isend, strict() ? PMPI_Issend : PMPI_Isend, data, n, t, dest, tag,
                    comm, request);
}
int MPI_Issend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return start_send(Call::MPI_Issend, PMPI_Issend, data, n, t, dest, tag, comm, request);
}
// These are buffered on purpose, in the program's own memory, so strict mode does not change
// them.
int MPI_Bsend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm) {
  return send(Call::MPI_Bsend, PMPI_Bsend, data, n, t, dest, tag, comm);
}
int MPI_Ibsend(const void* data, int n, MPI_Datatype t, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return start_send(Call::MPI_Ibsend, PMPI_Ibsend, data, n, t, dest, tag, comm, request);
}

int MPI_Recv(void* data, int n, MPI_Datatype t, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  return observed(
      Call::MPI_Recv, {Message{Kind::receive, data, source, tag, n, t, comm}}, status,
      [=](MPI_Status* known) { return PMPI_Recv(data, n, t, source, tag, comm, known); });
}
int MPI_Irecv(void* data, int n, MPI_Datatype t, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return observed_start(Call::MPI_Irecv, Message{Kind::receive, data, source, tag, n, t, comm},
                        request,
                        [=] { return PMPI_Irecv(data, n, t, source, tag, comm, request); });
}

int MPI_Sendrecv(const void* out, int out_n, MPI_Datatype out_t, int dest, int out_tag,
                 void* in, int in_n, MPI_Datatype in_t, int source, int in_tag, MPI_Comm comm,
                 MPI_Status* status) {
  return observed(Call::MPI_Sendrecv,
                  {Message{Kind::send, out, dest, out_tag, out_n, out_t, comm},
                   Message{Kind::receive, in, source, in_tag, in_n, in_t, comm}},
                  status, [=](MPI_Status* known) {
                    return (strict() ? synchronous_sendrecv : PMPI_Sendrecv)(
                        out, out_n, out_t, dest, out_tag, in, in_n, in_t, source, in_tag, comm,
                        known);
                  });
}
int MPI_Sendrecv_replace(void* data, int n, MPI_Datatype t, int dest, int out_tag, int source,
                         int in_tag, MPI_Comm comm, MPI_Status* status) {
  return observed(Call::MPI_Sendrecv_replace,
                  {Message{Kind::send, data, dest, out_tag, n, t, comm},
                   Message{Kind::receive, data, source, in_tag, n, t, comm}},
                  status, [=](MPI_Status* known) {
                    return PMPI_Sendrecv_replace(data, n, t, dest, out_tag, source, in_tag,
                                                 comm, known);
                  });
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  return observed(Call::MPI_Probe,
                  {Message{Kind::probe, nullptr, source, tag, 0, MPI_BYTE, comm}}, status,
                  [=](MPI_Status* known) { return PMPI_Probe(source, tag, comm, known); });
}
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  const int result = PMPI_Iprobe(source, tag, comm, flag, status);
  if (!observing() || result != MPI_SUCCESS) return result;
  constexpr Call kCall = Call::MPI_Iprobe;
  const std::array probe{
      start(kCall, Message{Kind::probe, nullptr, source, tag, 0, MPI_BYTE, comm})};
  if (*flag == 0) {
    note_polling(kCall, probe);
  } else {
    const Observation found(kCall, probe);  // enters the call and leaves it again
  }
  return result;
}

}  // extern "C"
