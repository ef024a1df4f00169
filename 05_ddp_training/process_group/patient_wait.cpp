// Look at: MPI_Recv, MPI_Sendrecv and MPI_Wait, which the program gets in place of the
// functions of the watch or of MPI.
#include "05_ddp_training/process_group/patient_wait.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <thread>

namespace dist {
namespace {

thread_local bool patient = false;

// The function that the program would call if this file did not define one of that name.
template <class Function>
Function* next_definition(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Polls less and less often: each pause is an eighth of the time waited so far, but at most
// 100 us. The wait ends at most one pause late.
int poll(MPI_Request* request, MPI_Status* status) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(100);
  const auto begin = Clock::now();
  for (;;) {
    int done = 0;
    const int result = MPI_Test(request, &done, status);
    if (result != MPI_SUCCESS || done != 0) return result;
    const std::chrono::nanoseconds waited = Clock::now() - begin;
    std::this_thread::sleep_for(std::min(waited / 8, kLongestPause));
  }
}

}  // namespace

void wait_patiently(bool on) {
  patient = on;
}

}  // namespace dist

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  static auto* const wait = dist::next_definition<decltype(MPI_Wait)>("MPI_Wait");
  return dist::patient ? dist::poll(request, status) : wait(request, status);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  static auto* const receive = dist::next_definition<decltype(MPI_Recv)>("MPI_Recv");
  if (!dist::patient) return receive(data, count, type, source, tag, comm, status);
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = MPI_Irecv(data, count, type, source, tag, comm, &request);
  return result == MPI_SUCCESS ? dist::poll(&request, status) : result;
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest, int out_tag,
                 void* in, int in_count, MPI_Datatype in_type, int source, int in_tag,
                 MPI_Comm comm, MPI_Status* status) {
  static auto* const exchange = dist::next_definition<decltype(MPI_Sendrecv)>("MPI_Sendrecv");
  if (!dist::patient) {
    return exchange(out, out_count, out_type, dest, out_tag, in, in_count, in_type, source,
                    in_tag, comm, status);
  }
  MPI_Request receiving = MPI_REQUEST_NULL;
  MPI_Request sending = MPI_REQUEST_NULL;
  int result = MPI_Irecv(in, in_count, in_type, source, in_tag, comm, &receiving);
  if (result != MPI_SUCCESS) return result;
  result = MPI_Isend(out, out_count, out_type, dest, out_tag, comm, &sending);
  if (result != MPI_SUCCESS) return result;
  const int received = dist::poll(&receiving, status);
  // Wait for both transfers, even if the first one failed: until then, the data belongs to MPI.
  const int sent = dist::poll(&sending, MPI_STATUS_IGNORE);
  return received != MPI_SUCCESS ? received : sent;
}
