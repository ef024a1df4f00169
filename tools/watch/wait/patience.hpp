// Waits that leave the processor to others. MPI polls while it waits, which is fastest for a
// rank with a processor of its own. Without one, polling takes time from those that it waits
// for. Open MPI can yield between its looks (mpi_yield_when_idle), but beside other programs
// that does not help: the next turn may come milliseconds later. A thread that sleeps gets its
// turn soon after it wakes up.
//
// So the watch makes Open MPI yield, and defines sched_yield (patience.cpp), which sleeps
// inside a call of MPI if the thread waits patiently. Nothing else changes: every call reaches
// MPI as the program made it. Only some ranks may be patient, since each host has its own load,
// so patience must not add or replace any call that others take part in.
#pragma once

#include "common/watch.hpp"

namespace dist::watch {

// Finds out whether this host has more ranks than processors for them. If so, all threads wait
// patiently (Patience::by_load). Called before MPI starts, because MPI then reads whether to
// yield. Sends no message.
void count_processors();
void set_patience(Patience patience);  // of this thread

// Exists while this thread is in a call of MPI that may wait.
class CallThatWaits {
 public:
  CallThatWaits();
  ~CallThatWaits();
  CallThatWaits(CallThatWaits&&) = delete;
};

}  // namespace dist::watch
