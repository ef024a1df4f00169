// What this file adds: waits for messages that leave the core to those who compute, each in the
// place of the MPI call after which it is named. For the second reading.
//
// MPI waits by asking over and over. Where no core is free for that, it takes turns with the
// computation, and yielding makes that worse: the kernel lets a thread that yields wait for as
// long as the others like, a few milliseconds at a time, and every message is late by so much.
// A thread that sleeps is let in at once when it wakes up.
// Builds on: Communicator, whose wait_policy() asks for it. Lesson 5's communication thread
// does.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace dist {

// Asks less and less often: the pause is an eighth of what it has waited already, so a wait
// gets longer by at most that, and it never exceeds 100 us.
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
  // The data may be written again when both are done, whatever became of the first.
  const int sent = patient_wait(&sending, MPI_STATUS_IGNORE);
  return received != MPI_SUCCESS ? received : sent;
}

}  // namespace dist
