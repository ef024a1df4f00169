// What this file adds: waits for messages that leave the core to threads that compute. Skip
// this file on a first reading.
//
// MPI waits by polling, which competes with the computation if no core is free. Yielding does
// not help: the kernel lets the other threads run for a few milliseconds, and every message is
// delayed by that time. A sleeping thread gets the core as soon as it wakes up.
#pragma once

namespace dist {

// From now on, MPI_Recv, MPI_Sendrecv and MPI_Wait poll with short pauses on this thread, or no
// longer do so. The program defines these three functions itself, so the algorithms of earlier
// lessons need not know about it. Other threads, and MPI's collectives, are not affected.
void wait_patiently(bool on);

}  // namespace dist
