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
// In the wild: ROCm/TransferBench#270: a rank that fails leaves before a broadcast that the
//          others enter
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/break_it/experiments.hpp"
#include "02_broadcast/broadcast.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kLayers = 3;
using Layer = std::array<float, 4>;

// What the root broadcasts: tensor 0 is the counter, and tensors 1, 2, 3 are the layers. The
// thousands digit shows which tensor it is.
Layer tensor_of_root(std::size_t which) {
  Layer tensor{};
  fill_tracer_numbers(tensor, static_cast<int>(which));
  return tensor;
}

// Returns what this rank's layers hold after the broadcasts.
std::vector<Layer> load_layers(const Communicator& comm, BroadcastAlgorithm algorithm) {
  const int root = 0;
  if (comm.rank() == root) {
    Layer counter = tensor_of_root(0);
    broadcast<float>(comm, counter, root, algorithm);
  }
  std::vector<Layer> layers(kLayers, Layer{-1, -1, -1, -1});
  for (std::size_t k = 0; k < kLayers; ++k) {
    if (comm.rank() == root) layers[k] = tensor_of_root(k + 1);
    broadcast<float>(comm, layers[k], root, algorithm);
  }
  // Not part of the mistake: the others receive the last tensor, so that no message is left.
  Layer left_over{};
  if (comm.rank() != root) broadcast<float>(comm, left_over, root, algorithm);
  return layers;
}

// Returns which of the root's tensors `layer` equals, or -1 if it equals none of them.
int which_tensor(const Layer& layer) {
  for (std::size_t which = 0; which <= kLayers; ++which) {
    if (layer == tensor_of_root(which)) return static_cast<int>(which);
  }
  return -1;
}

}  // namespace

bool break_root_only(const Program& program) {
  const Communicator& comm = program.comm;
  bool seen = true;
  for (const auto& [name, algorithm] : {NamedBroadcast{"tree", BroadcastAlgorithm::tree},
                                        NamedBroadcast{"mpi", BroadcastAlgorithm::mpi}}) {
    std::vector<int> held;
    for (const Layer& layer : load_layers(comm, algorithm)) held.push_back(which_tensor(layer));
    const std::vector<int> expected =
        comm.rank() == 0 ? std::vector{1, 2, 3} : std::vector{0, 1, 2};
    seen = seen && held == expected;
    program.console.line(
        fmt::format("  {}: the root broadcasts tensors 1, 2, 3 for layers 1, 2, 3", name));
    lines_in_rank_order(program.console, comm,
                        fmt::format("    rank {}: layers 1, 2, 3 hold tensors {}", comm.rank(),
                                    join(held, ", ")));
    rows_in_rank_order(program.console, comm,
                       {{"break", "root-only"},
                        {"algorithm", name},
                        {"rank", comm.rank()},
                        {"layers_hold", held}});
  }
  return seen;
}

}  // namespace dist
