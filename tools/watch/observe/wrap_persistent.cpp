// Persistent requests. MPI_Send_init and MPI_Recv_init prepare a message, and each MPI_Start of
// the request is one message. Unlike other requests, it is still there when that is complete.
#include "tools/watch/observe/wrap.hpp"

#include <mutex>
#include <unordered_map>

using namespace dist::watch;

namespace {

struct Prepared {
  std::mutex mutex;
  std::unordered_map<MPI_Request, Message> messages;
};
Prepared& prepared = *new Prepared;  // threads may outlive static objects

int prepare(int result, const MPI_Request* request, const Message& message) {
  if (result != MPI_SUCCESS) return result;
  const std::lock_guard lock(prepared.mutex);
  prepared.messages.insert_or_assign(*request, message);
  return result;
}

}  // namespace

bool dist::watch::is_complete(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return true;
  {
    const std::lock_guard lock(prepared.mutex);
    if (prepared.messages.count(request) == 0) return false;
  }
  int inactive = 0;
  PMPI_Request_get_status(request, &inactive, MPI_STATUS_IGNORE);
  return inactive != 0;
}

void dist::watch::forget_persistent(MPI_Request request) {
  const std::lock_guard lock(prepared.mutex);
  prepared.messages.erase(request);
}

extern "C" {

int MPI_Send_init(const void* data, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const auto work = is_on(kStrict) ? PMPI_Ssend_init : PMPI_Send_init;
  return prepare(work(data, n, t, peer, tag, comm, request), request,
                 {OperationKind::send, data, peer, tag, n, t, comm});
}
int MPI_Ssend_init(const void* data, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  return prepare(PMPI_Ssend_init(data, n, t, peer, tag, comm, request), request,
                 {OperationKind::send, data, peer, tag, n, t, comm});
}
int MPI_Recv_init(void* data, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  return prepare(PMPI_Recv_init(data, n, t, peer, tag, comm, request), request,
                 {OperationKind::receive, data, peer, tag, n, t, comm});
}

int MPI_Start(MPI_Request* request) {
  Message message{};
  {
    const std::lock_guard lock(prepared.mutex);
    const auto found = prepared.messages.find(*request);
    if (found == prepared.messages.end()) return PMPI_Start(request);
    message = found->second;
  }
  return observed_start(Call::MPI_Start, message, request, [=] { return PMPI_Start(request); });
}

int MPI_Startall(int count, MPI_Request* requests) {
  for (int i = 0; i < count; ++i) {
    if (const int result = MPI_Start(&requests[i]); result != MPI_SUCCESS) return result;
  }
  return MPI_SUCCESS;
}

}  // extern "C"
