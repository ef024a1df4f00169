// Belief:  collectives may be called in any order, as long as every rank calls all of them.
// Predict: the last rank reduces its bias before its weight; the others reduce the weight
//          first. Who notices?
// You see: if both have the same size, nobody: weight and bias are added to each other on all
//          ranks, without an error. If the sizes differ, or the memory is registered, our
//          all-reduce says "rank 3 called the all-reduce with a different number of elements
//          than rank 0".
// Why:     collectives match by call order, not by name. A message has a length but does not
//          say what it is for. Ranks that share memory can compare their calls first. Between
//          hosts our ring would notice the wrong length on arrival, while NCCL may hang.
// In the wild: NVIDIA/nccl#296 (a different order on one rank), #1417 (different sizes: some
//          hang, some give wrong numbers).
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace dist {
namespace {

// This offset is added to every bias, so that biases and weights cannot be confused.
constexpr float kBias = 50000;

void fill(const Communicator& comm, std::span<float> weight, std::span<float> bias) {
  fill_tracer_numbers(weight, comm.rank());
  fill_tracer_numbers(bias, comm.rank());
  for (float& value : bias) value += kBias;
}

// Reduces weight and bias, in the opposite order on the last rank.
void reduce_in_this_order(const Communicator& comm, std::span<float> weight,
                          std::span<float> bias,
                          const std::function<void(std::span<float>)>& all_reduce_one) {
  const bool swaps = comm.rank() == comm.size() - 1;
  all_reduce_one(swaps ? bias : weight);
  all_reduce_one(swaps ? weight : bias);
}

// Returns the message of the Error that `body` throws; empty if it throws no Error.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

bool break_swap_order(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> weight(4), bias(4);
  fill(comm, weight, bias);
  reduce_in_this_order(comm, weight, bias, [&](std::span<float> data) {
    all_reduce_ring<float>(comm, data, ReduceOp::sum);
  });
  double sum = 0;
  for (int rank = 0; rank < comm.size(); ++rank) sum += tracer_number(rank, 0);
  // The last rank reduced its bias first, so its bias was added to the others' weights, and
  // their weights were added to its bias.
  const std::vector<float>& first = comm.rank() == comm.size() - 1 ? bias : weight;
  const bool swapped = comm.all_agree(first[0] == static_cast<float>(sum + kBias));
  program.console.line(
      fmt::format("  same size, by messages: no error; the sum of the weights is {:.0f}, and "
                  "must be {:.0f}",
                  first[0], sum));

  AllReducer reducer(comm);
  const std::string none = reducer.why_no_shared_memory();
  const auto registered = [&](std::size_t of_weight, std::size_t of_bias) {
    const Tensor w = reducer.allocate({of_weight}), b = reducer.allocate({of_bias});
    fill(comm, w.span(), b.span());
    const std::string error = error_of([&] {
      reduce_in_this_order(comm, w.span(), b.span(), [&](std::span<float> data) {
        reducer.all_reduce<float>(data, ReduceOp::sum, AllReduceAlgorithm::shared_memory);
      });
    });
    comm.barrier();  // other ranks may use this memory until all have finished
    return error;
  };
  const std::string same = none.empty() ? registered(4, 4) : "";
  const std::string different = none.empty() ? registered(8, 4) : "";
  if (none.empty()) {
    program.console.line("  same size, registered:  " + same);
    program.console.line("  different size:         " + different);
  } else {
    program.console.line("  different size: not shown, because there is no shared memory: " +
                         none);
  }
  program.console.row({{"break", "swap-order"},
                       {"ranks", comm.size()},
                       {"silently_swapped", swapped},
                       {"sum_seen", first[0]},
                       {"sum_right", sum},
                       {"same_size_registered", none.empty() ? Json(same) : Json()},
                       {"different_size", none.empty() ? Json(different) : Json()}});
  const auto named = [](const std::string& error, const char* what) {
    return error.find(what) != std::string::npos;
  };
  return swapped &&
         (!none.empty() || (named(same, "with a different tensor") &&
                            named(different, "with a different number of elements")));
}

}  // namespace dist
