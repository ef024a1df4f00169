// The acts that the program send_recv can show.
#pragma once

#include "01_send_recv/show/sweep_options.hpp"
#include "common/program.hpp"

namespace dist {

// Each function is called on all ranks, and returns true on all ranks if every number on every
// rank was correct.

// four_numbers.cpp: four numbers per rank, printed before and after.
bool show_message(const Program& program, const SweepOptions& sweep);
bool show_ring(const Program& program, const SweepOptions& sweep);
bool show_nccl(const Program& program, const SweepOptions& sweep);

// costs.cpp: what a message costs, by size; alpha and beta, saved for later lessons. This act
// and those below need at least two ranks.
bool show_ping_pong(const Program& program, const SweepOptions& sweep);

// ways.cpp: the size up to which MPI_Send returns early; five ways to pass numbers on; and a
// deliberate deadlock, which throws Error if it does not hang.
bool show_eager_limit(const Program& program, const SweepOptions& sweep);
bool show_exchanges(const Program& program, const SweepOptions& sweep);
bool show_deadlock(const Program& program, const SweepOptions& sweep);

}  // namespace dist
