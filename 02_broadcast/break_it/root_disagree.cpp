// Belief:  any root will do, as long as somebody sends.
// Predict: all ranks broadcast the weights from rank 0, but the last rank believes that it is
//          the root. Who notices?
// You see: nobody. The call returns on all ranks, and the last one keeps its own weights. The
//          mistake shows one call later, when all ranks broadcast the bias from rank 0. The
//          last rank receives the weights that it missed, which are too long for the bias, so a
//          correct call fails. (With equal lengths the numbers would be wrong, as in root-only.
//          With --strict the two roots wait for each other, and the report names them.)
// Why:     a broadcast does not compare roots; each rank sends and receives according to its
//          own root. A message that was not received waits for the next receive from its
//          sender.
// In the wild: dash-project/dash#61: a broadcast of 16 bytes fails because the 280 bytes of a
//          different one arrive
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/break_it/experiments.hpp"
#include "02_broadcast/flat.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace dist {
namespace {

using Weights = std::array<float, 8>;
using Bias = std::array<float, 4>;

int whose(std::span<const float> data, int size) {
  for (int rank = 0; rank < size; ++rank) {
    const auto of_rank = [rank](std::size_t i) { return tracer_number(rank, i); };
    if (count_wrong(data, of_rank) == 0) return rank;
  }
  return -1;
}

// Not part of the mistake: receives the messages that nobody has received.
void take_left_overs(const Communicator& comm) {
  const int last = comm.size() - 1;
  Weights weights{};
  if (comm.rank() != last) recv<float>(comm, weights, last);
}

}  // namespace

bool break_root_disagree(const Program& program) {
  const Communicator& comm = program.comm;
  const int last = comm.size() - 1;
  Weights weights{};
  fill_tracer_numbers(weights, comm.rank());
  broadcast_flat<float>(comm, weights, /*root=*/comm.rank() == last ? last : 0);
  const int held = whose(weights, comm.size());

  Bias bias{};
  fill_tracer_numbers(bias, comm.rank());
  std::string error;
  try {
    broadcast_flat<float>(comm, bias, /*root=*/0);
  } catch (const Error& refused) {
    error = refused.what();
    error = error.substr(0, error.find(": receive("));  // without its location
  }
  // The refused message is gone; the next one holds the bias itself.
  if (comm.rank() == last) recv<float>(comm, bias, 0);
  take_left_overs(comm);

  lines_in_rank_order(program.console, comm,
                      fmt::format("  rank {} (its root: {}) holds the weights of rank {}; then "
                                  "the bias: {}",
                                  comm.rank(), comm.rank() == last ? last : 0, held,
                                  error.empty() ? "no error" : error));
  rows_in_rank_order(program.console, comm,
                     {{"break", "root-disagree"},
                      {"rank", comm.rank()},
                      {"weights_of_rank", held},
                      {"error_at_bias", error.empty() ? Json() : Json(error)}});
  const bool is_last = comm.rank() == last;
  return held == (is_last ? last : 0) && error.empty() != is_last && whose(bias, 1) == 0;
}

}  // namespace dist
