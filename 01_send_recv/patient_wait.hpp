// What this file adds: waits that leave the core to threads that compute. Each replaces the MPI
// call after which it is named. Skip this file on a first reading.
//
// MPI waits by polling. Without a free core, polling competes with the computation. Yielding
// does not help: the kernel lets the other threads run for a few milliseconds, and every
// message is delayed by that time. A sleeping thread gets the core as soon as it wakes up.
// Builds on: Communicator, whose wait_policy() selects these waits. Lesson 5's communication
// thread uses them.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace dist {

// Polls less and less often: each pause is an eighth of the time waited so far, but at most
// 100 us. The wait ends at most one pause late.
inline int patient_wait(MPI_Request* request, MPI_Status* status) {
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

inline int patient_recv(void* data, int count, MPI_Datatype type, int source, int tag,
                        MPI_Comm comm, MPI_Status* status) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = MPI_Irecv(data, count, type, source, tag, comm, &request);
  return result == MPI_SUCCESS ? patient_wait(&request, status) : result;
}

inline int patient_sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest,
                            int out_tag, void* in, int in_count, MPI_Datatype in_type,
                            int source, int in_tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request receiving = MPI_REQUEST_NULL;
  MPI_Request sending = MPI_REQUEST_NULL;
  int result = MPI_Irecv(in, in_count, in_type, source, in_tag, comm, &receiving);
  if (result != MPI_SUCCESS) return result;
  result = MPI_Isend(out, out_count, out_type, dest, out_tag, comm, &sending);
  if (result != MPI_SUCCESS) return result;
  const int received = patient_wait(&receiving, status);
  // Wait for both transfers, even if the first one failed: until then, the data belongs to MPI.
  const int sent = patient_wait(&sending, MPI_STATUS_IGNORE);
  return received != MPI_SUCCESS ? received : sent;
}

}  // namespace dist
