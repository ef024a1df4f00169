// What this file adds: waits for messages that leave the core to threads that compute. MPI
// polls, which competes with them. Yielding lets the others run for a few milliseconds, which
// delays every message. A sleeping thread gets the core as soon as it wakes up.
#pragma once

namespace dist {

// From now on, MPI_Recv, MPI_Sendrecv and MPI_Wait poll with short pauses on this thread, or no
// longer do so. The program defines these three functions itself, so the algorithms of earlier
// lessons need not know about it. Other threads, and MPI's collectives, are not affected.
void wait_patiently(bool on);

}  // namespace dist
