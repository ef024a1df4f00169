// Belief:  ranks share memory: what rank 0 writes to a variable, rank 1 can read.
// Predict: rank 0 sets a global variable to 42 before a barrier. Rank 1 reads it after the
//          barrier. Is it 42?
// You see: the same variable with another value on every rank. The addresses differ because
//          Linux shuffles them: with `setarch -R` before mpirun they are equal, the values not.
// Why:     ranks are processes. Each has its own address space, in which the same program lies
//          at addresses of its own; the barrier makes rank 1 wait, it moves nothing.
// In the wild: an address (or a pointer in a struct) sent as a message means nothing to its
//          receiver.
#include "01_send_recv/break_it/experiments.hpp"

#include <fmt/core.h>

#include <cstdint>

namespace dist {
namespace {

int the_variable = 0;  // one per process

}  // namespace

bool break_shared_variable(const Program& program) {
  const Communicator& comm = program.comm;
  if (comm.rank() == 0) the_variable = 42;
  comm.barrier();
  const auto address = reinterpret_cast<std::uintptr_t>(&the_variable);
  lines_in_rank_order(
      program.console, comm,
      fmt::format("  rank {}  the_variable at {:#x}: {}", comm.rank(), address, the_variable));
  rows_in_rank_order(program.console, comm,
                     {{"break", "shared-variable"},
                      {"rank", comm.rank()},
                      {"address", address},
                      {"value", the_variable}});
  program.console.line("rank 0 wrote 42 before the barrier; nobody else's variable changed");
  return the_variable == (comm.rank() == 0 ? 42 : 0);
}

}  // namespace dist
