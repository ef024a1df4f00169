// The acts of the program send_recv: what main.cpp can show.
#pragma once

#include "01_send_recv/show/sweep_options.hpp"
#include "common/communicator.hpp"
#include "common/console.hpp"
#include "common/stream.hpp"

namespace dist {

// What all acts share.
struct Stage {
  const Console& console;
  const Communicator& comm;
  const Stream& stream;
  const SweepOptions& sweep;
};

// Each is called on all ranks; true on all ranks if every number was right on all of them.

// four_numbers.cpp: four numbers per rank, printed before and after.
bool show_message(const Stage& stage);
bool show_ring(const Stage& stage);
bool show_nccl(const Stage& stage);

// costs.cpp: what a message costs, by size; alpha and beta, kept for later lessons. Needs two
// ranks, as all that follow.
bool show_ping_pong(const Stage& stage);

// ways.cpp: up to which size MPI_Send returns early; the five ways of an exchange; and a
// program that hangs, on purpose: it throws Error if it did not.
bool show_eager_limit(const Stage& stage);
bool show_exchanges(const Stage& stage);
bool show_deadlock(const Stage& stage);

}  // namespace dist
