// Belief:  if one rank leaves an all-reduce out, the others will time out, or go on without it.
// Predict: six all-reduces on all ranks; rank 2 leaves out the seventh. What do the others do?
// You see: nothing, for ever. No call of MPI's or NCCL's ends by itself here. The watch ends
// the
//          job with 86 and says who is missing: "rank 2 never entered it, last seen in #6".
// Why:     a rank in an all-reduce waits for a message from its neighbour, and a neighbour that
//          is late looks like one that never comes. Only somebody who sees all ranks at once
//          can say who is missing.
// In the wild: NVIDIA/nccl#1260, pytorch/pytorch#118369.
#include "01_send_recv/show/tracer_numbers.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace dist {

bool break_one_skips(const Program& program) {
  const Communicator& comm = program.comm;
  constexpr int kCalls = 7;
  const int skips = std::min(2, comm.size() - 1);
  program.console.line(
      fmt::format("rank {} leaves out all_reduce #{}; the others wait for it, {}", skips,
                  kCalls, "until the watch ends the job"));
  program.console.row(
      {{"break", "one-skips"}, {"ranks", comm.size()}, {"skips", skips}, {"call", kCalls}});
  std::vector<float> gradient(4);
  for (int call = 1; call <= kCalls; ++call) {
    fill_tracer_numbers(gradient, comm.rank());
    if (comm.rank() == skips && call == kCalls) break;
    const CallScope scope("all_reduce", "gradients");
    all_reduce_ring<float>(comm, gradient, ReduceOp::avg);
  }
  comm.barrier();  // rank 2 is through with its work and waits here
  return false;
}

}  // namespace dist
