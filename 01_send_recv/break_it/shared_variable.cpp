// Belief:  ranks share memory: what rank 0 writes to a variable, rank 1 can read.
// Predict: rank 0 sets a global variable to 42. After a barrier, rank 1 reads it. Is it 42?
// You see: 42 on rank 0 and 0 on all other ranks. The addresses differ because Linux randomises
//          them; with `setarch -R` before mpirun they are equal, but the values still differ.
// Why:     each rank is a process with its own address space. A barrier moves no data.
#include "common/program.hpp"

#include <cstdint>

namespace dist {

static int the_variable = 0;  // one per process

bool break_shared_variable(const Program& program) {
  const Communicator& comm = program.comm;
  if (comm.rank() == 0) the_variable = 42;
  comm.barrier();
  const auto address = reinterpret_cast<std::uintptr_t>(&the_variable);
  lines_in_rank_order(program.console, comm, "  rank {}  the_variable at {:#x}: {}",
                      comm.rank(), address, the_variable);
  return the_variable == (comm.rank() == 0 ? 42 : 0);
}

}  // namespace dist
