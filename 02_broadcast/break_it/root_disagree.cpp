// Belief:  any root will do, as long as somebody sends.
// Predict: all broadcast the weights from rank 0, but the last rank from itself. Who notices?
// You see: nobody. The call returns on all ranks, and the last one keeps its own weights. The
//          mistake shows one call later, when all ranks broadcast the bias from rank 0. The
//          last rank receives the weights that it missed, which are too long for the bias, so a
//          correct call fails. (With equal lengths the numbers would be wrong, as in root-only.
//          With --strict the two roots wait for each other, and the report names them.)
// Why:     a broadcast does not compare roots; each rank sends and receives according to its
//          own root. A message that was not received waits for the next receive from its
//          sender.
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/flat.hpp"
#include "common/program.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace dist {

static bool is_of(int rank, std::span<const float> data) {
  return count_wrong(data, [rank](std::size_t i) { return tracer_number(rank, i); }) == 0;
}

bool break_root_disagree(const Program& program) {
  const Communicator& comm = program.comm;
  const int last = comm.size() - 1;
  const bool is_last = comm.rank() == last;
  const int my_root = is_last ? last : 0;
  std::array<float, 8> weights{};
  fill_tracer_numbers(weights, comm.rank());
  broadcast_flat<float>(comm, weights, my_root);
  const auto held = static_cast<int>(weights[0]) / 1000;  // whose weights
  const bool whole = is_of(held, weights);

  std::array<float, 4> bias{};
  fill_tracer_numbers(bias, comm.rank());
  std::string error;
  try {
    broadcast_flat<float>(comm, bias, /*root=*/0);
  } catch (const Error& refused) {
    error = refused.what();
    error = error.substr(0, error.find(": receive("));  // without its location
  }
  // Not part of the mistake: the messages that nobody has received. The one that was refused is
  // gone, so the last rank's next one holds the bias itself.
  if (is_last) {
    recv<float>(comm, bias, 0);
  } else {
    recv<float>(comm, weights, last);
  }

  lines_in_rank_order(
      program.console, comm,
      "  rank {} (its root: {}) holds the weights of rank {}; then the bias: {}", comm.rank(),
      my_root, held, error.empty() ? "no error" : error);
  return held == my_root && whole && error.empty() != is_last && is_of(0, bias);
}

}  // namespace dist
