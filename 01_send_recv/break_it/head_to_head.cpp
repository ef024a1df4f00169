// Belief:  the program worked once, so it is correct.
// Predict: ranks 0 and 1 both send, then both receive. Do they get each other's numbers?
// You see: they do if a message is exactly as long as the eager limit, which the program
//          measures. With one more number, they hang, and the report names the cycle
//          0 -> 1 -> 0. With --strict, they hang even at 4 bytes.
// Why:     up to the eager limit, MPI copies the message and MPI_Send returns. Above it, the
//          send waits for its receive, which neither rank reaches.
#include "01_send_recv/perf/eager_limit.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dist {

// Ranks 0 and 1 send first, then receive. Returns true if the right numbers arrived.
static bool send_first(const Communicator& comm, std::size_t count) {
  if (comm.rank() > 1) return true;
  const int peer = 1 - comm.rank();
  std::vector<float> out(count);
  fill_tracer_numbers(out, comm.rank());
  std::vector<float> in(count, -1.0F);
  send<float>(comm, out, peer);
  recv<float>(comm, in, peer);
  return count_wrong(in, [&](std::size_t i) { return tracer_number(peer, i); }) == 0;
}

bool break_head_to_head(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  // One of these limits applies between ranks 0 and 1. We need not know which one: up to the
  // smallest limit, the exchange completes, and above the largest, it hangs.
  const std::vector<EagerLimit> limits = find_eager_limits(comm);
  const auto [smallest, largest] = std::ranges::minmax(limits, {}, &EagerLimit::bytes);
  const std::size_t fits = smallest.bytes / sizeof(float);
  const std::size_t too_many = largest.bytes / sizeof(float) + 1;
  if (fits > 0) {
    const bool right = comm.all_agree(send_first(comm, fits));
    console.line("  {} bytes (the eager limit), ranks 0 and 1 both send first: {}",
                 fits * sizeof(float), right ? "right numbers" : "WRONG numbers");
  } else {
    console.line("  no MPI_Send of any size returns before its receive is called");
  }
  console.line("  {} bytes, ranks 0 and 1 both send first: this will hang",
               too_many * sizeof(float));
  send_first(comm, too_many);
  return false;
}

}  // namespace dist
