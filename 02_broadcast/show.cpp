#include "02_broadcast/show.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/broadcast.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace dist {

std::vector<std::string> shown_broadcasts() {
  std::vector<std::string> names{"both"};
  std::ranges::copy(kBroadcastAlgorithms.all(), std::back_inserter(names));
  return names;
}

void print_tree_rows(const Program& program, int root) {
  if (!program.console.json()) return;
  const Communicator& comm = program.comm;
  std::vector<float> numbers(4);
  fill_tracer_numbers(numbers, comm.rank());
  broadcast_tree<float>(comm, numbers, root);
  const auto rank_of = [&](int vrank) { return (vrank + root) % comm.size(); };
  for (int round = 1, distance = 1; distance < comm.size(); ++round, distance *= 2) {
    for (int vrank = 0; vrank < distance && vrank + distance < comm.size(); ++vrank) {
      program.console.row({{"message", true},
                           {"round", round},
                           {"from", rank_of(vrank)},
                           {"to", rank_of(vrank + distance)},
                           {"values", numbers}});
    }
  }
}

Tensor draw_model(const Program& program, int rank) {
  constexpr std::size_t kInputs = 8, kOutputs = 4;
  const Tensor model({kOutputs * kInputs + kOutputs}, program.stream.device());
  Generator generator(program.common.seed + static_cast<std::uint64_t>(rank));
  on_host(program.stream, model, [&](std::span<float> parameters) {
    init_linear(parameters.first(kOutputs * kInputs), parameters.last(kOutputs), kInputs,
                generator);
  });
  return model;
}

bool show_replicas(const Program& program, const Tensor& model, int root) {
  const int rank = program.comm.rank();
  const auto drawn_by = [&](int r) { return to_host(program.stream, draw_model(program, r)); };
  const std::vector<float> after = to_host(program.stream, model);
  program.console.line(
      "a model of 36 parameters, initialised with seed + rank: hash before and after");
  lines_in_rank_order(program.console, program.comm, "  rank {}  {:016x}  ->  {:016x}", rank,
                      hash_of(drawn_by(rank)), hash_of(after));
  return program.comm.all_agree(after == drawn_by(root));
}

}  // namespace dist
