// Belief:  if one rank leaves out an all-reduce, the others time out or go on without it.
// Predict: after six all-reduces, rank 2 leaves out the seventh. What do the others do?
// You see: they wait forever, because neither MPI nor NCCL gives up here. The watch ends the
//          job with status 86 and names the missing rank: "rank 2 never entered it, last seen
//          in #6".
// Why:     a rank in an all-reduce waits for a message from its neighbour. A late neighbour
//          looks like a missing one; only the watch, which sees all ranks, can distinguish
//          them.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <algorithm>
#include <vector>

namespace dist {

bool break_one_skips(const Program& program) {
  const Communicator& comm = program.comm;
  constexpr int kCalls = 7;
  const int skips = std::min(2, comm.size() - 1);
  program.console.line(
      "rank {} leaves out all_reduce #{}; the others wait until the watch ends the job", skips,
      kCalls);
  std::vector<float> gradient(4);
  for (int call = 1; call <= kCalls; ++call) {
    fill_tracer_numbers(gradient, comm.rank());
    if (comm.rank() == skips && call == kCalls) break;
    const CallScope scope("all_reduce", "gradients");
    all_reduce_ring<float>(comm, gradient, ReduceOp::avg);
  }
  comm.barrier();  // rank 2 has finished its work and waits here
  return false;
}

}  // namespace dist
