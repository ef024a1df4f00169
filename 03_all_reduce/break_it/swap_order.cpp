// Belief:  collectives may be called in any order, as long as every rank calls all of them.
// Predict: the last rank reduces bias, then weight; the others weight, then bias. Who notices?
// You see: if both have the same size, nobody: weight and bias are added to each other on all
//          ranks, without an error. If the sizes differ, or the memory is registered, our
//          all-reduce says "rank 3 called the all-reduce with a different number of elements
//          than rank 0".
// Why:     collectives match by call order, not by name. A message has a length but does not
//          say what it is for. Ranks that share memory can compare their calls first. Between
//          hosts our ring would notice the wrong length on arrival, while NCCL may hang.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/program.hpp"

#include <string>
#include <vector>

namespace dist {

// This offset is added to every bias, so that biases and weights cannot be confused.
constexpr float kBias = 50000;

static void fill(const Communicator& comm, std::span<float> weight, std::span<float> bias) {
  fill_tracer_numbers(weight, comm.rank());
  fill_tracer_numbers(bias, comm.rank());
  for (float& value : bias) value += kBias;
}

// Reduces weight and bias in registered memory, in the opposite order on the last rank. Returns
// the message of the Error that this throws; empty if it throws none.
static std::string error_of_swap(const Communicator& comm, AllReducer& reducer,
                                 std::size_t weight_count, std::size_t bias_count) {
  const Tensor weight = reducer.allocate({weight_count});
  const Tensor bias = reducer.allocate({bias_count});
  fill(comm, weight.span(), bias.span());
  const bool swaps = comm.rank() == comm.size() - 1;
  std::string message;
  try {
    for (const Tensor& tensor : {swaps ? bias : weight, swaps ? weight : bias}) {
      reducer.all_reduce(tensor.span(), ReduceOp::sum, AllReduceAlgorithm::shared_memory);
    }
  } catch (const Error& error) {
    message = error.what();
  }
  comm.barrier();  // other ranks may use this memory until all have finished
  return message;
}

bool break_swap_order(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  const bool swaps = comm.rank() == comm.size() - 1;
  std::vector<float> weight(4), bias(4);
  fill(comm, weight, bias);
  std::vector<float>& first = swaps ? bias : weight;
  all_reduce_ring<float>(comm, first, ReduceOp::sum);
  all_reduce_ring<float>(comm, swaps ? weight : bias, ReduceOp::sum);
  // The last rank reduced its bias first, so it was added to the others' weights.
  const double sum = 500.0 * comm.size() * (comm.size() - 1);
  const bool swapped = comm.all_agree(first[0] == static_cast<float>(sum + kBias));
  console.line(
      "  same size, by messages: no error; the sum of the weights is {:.0f}, and "
      "must be {:.0f}",
      first[0], sum);

  AllReducer reducer(comm);
  if (const std::string& none = reducer.why_no_shared_memory(); !none.empty()) {
    console.line("  different size: not shown, because there is no shared memory: " + none);
    return swapped;
  }
  const std::string same = error_of_swap(comm, reducer, 4, 4);
  const std::string different = error_of_swap(comm, reducer, 8, 4);
  console.line("  same size, registered:  " + same);
  console.line("  different size:         " + different);
  return swapped && same.find("with a different tensor") != std::string::npos &&
         different.find("with a different number of elements") != std::string::npos;
}

}  // namespace dist
