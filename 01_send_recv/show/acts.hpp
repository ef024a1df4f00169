// The acts of the program send_recv: what main.cpp can show.
#pragma once

#include "01_send_recv/show/sweep_options.hpp"
#include "common/program.hpp"

namespace dist {

// Each is called on all ranks; true on all ranks if every number was right on all of them.

// four_numbers.cpp: four numbers per rank, printed before and after.
bool show_message(const Program& program, const SweepOptions& sweep);
bool show_ring(const Program& program, const SweepOptions& sweep);
bool show_nccl(const Program& program, const SweepOptions& sweep);

// costs.cpp: what a message costs, by size; alpha and beta, kept for later lessons. Needs two
// ranks, as all that follow.
bool show_ping_pong(const Program& program, const SweepOptions& sweep);

// ways.cpp: up to which size MPI_Send returns early; the five ways of an exchange; and a
// program that hangs, on purpose: it throws Error if it did not.
bool show_eager_limit(const Program& program, const SweepOptions& sweep);
bool show_exchanges(const Program& program, const SweepOptions& sweep);
bool show_deadlock(const Program& program, const SweepOptions& sweep);

}  // namespace dist
