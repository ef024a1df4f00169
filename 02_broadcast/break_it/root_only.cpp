// Belief:  a broadcast that only the root calls must hang.
// Predict: three layers are broadcast. Before that, only rank 0 broadcasts its step counter,
//          because the call is inside an `if (rank == 0)`. What happens?
// You see: nothing hangs, and there is no error. The others' first broadcast pairs with the one
//          that they missed, their second with the root's first layer, and so on: every layer
//          holds the tensor that was broadcast before its own, and the last tensor is still on
//          its way.
// Why:     collectives match by the order of the calls, not by name or variable. A small
//          message waits in the receiver's memory until it is received. Above the eager limit
//          the root would hang, and a tensor of a different size would be refused. If all
//          shapes are equal, as in a stack of equal layers, no error appears.
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <array>
#include <vector>

namespace dist {

using Layer = std::array<float, 4>;

// What the root broadcasts: tensor 0 is the counter, and tensors 1, 2, 3 are the layers. The
// thousands digit shows which tensor it is.
static Layer tensor_of_root(int which) {
  Layer tensor{};
  fill_tracer_numbers(tensor, which);
  return tensor;
}

bool break_root_only(const Program& program) {
  const Communicator& comm = program.comm;
  const bool is_root = comm.rank() == 0;
  const auto from_root = [&](Layer layer) {
    broadcast_tree<float>(comm, layer, /*root=*/0);
    return layer;
  };
  if (is_root) from_root(tensor_of_root(0));  // the mistake
  bool seen = true;
  std::vector<int> held;
  for (int k = 1; k <= 3; ++k) {
    const Layer layer = from_root(is_root ? tensor_of_root(k) : Layer{});
    held.push_back(static_cast<int>(layer[0]) / 1000);
    seen = seen && layer == tensor_of_root(is_root ? k : k - 1);
  }
  // Not part of the mistake: the others receive the last tensor, so that no message is left.
  if (!is_root) from_root({});
  program.console.line("  the root broadcasts tensors 1, 2, 3 for layers 1, 2, 3");
  lines_in_rank_order(program.console, comm, "    rank {}: layers 1, 2, 3 hold tensors {}",
                      comm.rank(), join(held, ", "));
  return seen;
}

}  // namespace dist
