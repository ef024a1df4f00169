// For a thread whose messages travel while others compute: it waits without using up the core
// that they compute on.
//
// MPI waits by asking over and over, which is fastest where a core is free for it. Where none
// is, it takes turns with the computation, and yielding makes that worse: the kernel lets a
// thread that yields wait for as long as the others like, a few milliseconds at a time, and
// every message is late by so much. A thread that sleeps is let in at once when it wakes up.
#pragma once

namespace dist {

// From construction to destruction MPI_Sendrecv and MPI_Wait of this thread look less and less
// often: the pause is an eighth of what they have waited already, so a wait gets longer by at
// most that, and it never exceeds 100 us. Meant for the whole life of a thread.
class PatientWaits {
 public:
  PatientWaits();
  ~PatientWaits();
  PatientWaits(const PatientWaits&) = delete;
  PatientWaits& operator=(const PatientWaits&) = delete;
};

}  // namespace dist
