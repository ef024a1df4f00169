// Belief:  a stage may call `send` for whatever it has ready.
// Predict: in 1F1B on two stages, rank 0 sends the activations of micro-batch 1 to rank 1,
//          while rank 1 sends the gradient of micro-batch 0 to rank 0. Both use `send` and
//          receive afterwards. What happens?
// You see: both wait: the cycle 0 -> 1 -> 0.
// Why:     64 KiB is more than MPI copies (lesson 1), so each send waits for a receive that
//          comes after the other rank's send. advanced/pipeline_parallel.cpp uses isend.
#include "01_send_recv/send_recv.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <vector>

namespace dist {

bool break_pipeline_sends(const Program& program) {
  const int rank = program.comm.rank();
  if (rank > 1) return false;
  program.console.line("  stages 0 and 1 both send first: this will hang");
  std::vector<float> out(32 * 512), in(32 * 512);  // 32 rows
  const CallScope scope("exchange", rank == 0 ? "activations of 1" : "gradient of 0");
  send<float>(program.comm, out, 1 - rank);
  recv<float>(program.comm, in, 1 - rank);
  return false;
}

}  // namespace dist
