// Compares our all-reduces with MPI's own and with memcpy, which is as fast as a result can be
// written. all_reduce.py runs this program with several MPI settings and writes the table.
#include "01_send_recv/perf/comparison.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/mpi_environment.hpp"

#include <cstring>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("all_reduce_bench", "Times our all-reduces, MPI's own and memcpy.");
  const Communicator& comm = program.comm;
  program.common.device = "cpu";
  program.common.json = true;
  const auto sum = [&](std::size_t i) { return tracer_sum(comm.size(), i); };
  Comparison comparison{
      .program = program,
      .sweep = {.min_bytes = 1024, .max_bytes = 64U << 20},
      .iterations = 15,
      .bus_factor = 2.0 * (comm.size() - 1) / comm.size(),
      .fill = [&](std::span<float> data) { fill_tracer_numbers(data, comm.rank()); },
      .count_wrong = [&](std::span<const float> data) { return count_wrong(data, sum); }};
  comparison.declare({"mpi", "ring", "auto", "auto-ordinary", "memcpy"}, "which candidates",
                     /*smallest=*/4);
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Shape longest{comparison.sweep.max_bytes / sizeof(float)};
  AllReducer reducer(comm);
  const Tensor registered = reducer.allocate(longest);
  const Tensor ordinary(longest, Device{});
  const Tensor result(longest, Device{});
  for (std::size_t i = 0; i < result.numel(); ++i) {
    result.span()[i] = static_cast<float>(sum(i));
  }
  const auto by = [&](AllReduceAlgorithm algorithm) {
    return [&reducer, algorithm](const Tensor& tensor) {
      reducer.all_reduce(tensor.span(), ReduceOp::sum, algorithm);
    };
  };
  const auto copy_result = [&](const Tensor& tensor) {
    std::memcpy(tensor.data(), result.data(), tensor.size_bytes());
  };
  std::vector<Candidate> candidates{
      {.name = "mpi", .memory = ordinary, .run = by(AllReduceAlgorithm::mpi)},
      {.name = "ring", .memory = ordinary, .run = by(AllReduceAlgorithm::ring)},
      {.name = "auto", .memory = registered, .run = by(AllReduceAlgorithm::automatic)},
      {.name = "auto-ordinary", .memory = ordinary, .run = by(AllReduceAlgorithm::automatic)},
      {.name = "memcpy", .memory = ordinary, .run = copy_result}};
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return !comparison.includes(candidate.name);
  });
  // Enough to hide the cost of reading the clock and of starting together, but few enough for
  // repeated sums to stay finite (32 calls on 8 ranks multiply them by 2^96).
  const auto in_a_row = [](std::size_t bytes) {
    return bytes <= (64U << 10) ? 32 : bytes <= (1U << 20) ? 8 : 1;
  };
  for (Candidate& candidate : candidates) candidate.in_a_row = in_a_row;
  return comparison.run(candidates);
}
