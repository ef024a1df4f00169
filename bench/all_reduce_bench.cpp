// Measures our all-reduces, MPI's own and memcpy in turn, in one group of processes.
// all_reduce.py runs this program with several MPI settings and writes the table.
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/buffer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"

#include <mpi.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

using namespace dist;

namespace {

struct Candidate {
  std::string name;
  std::span<float> memory;
  std::function<void(std::span<float>)> run;
};

// Calls per sample: enough to hide the cost of reading the clock and of starting together, but
// few enough for repeated sums to stay finite (32 calls on 8 ranks multiply them by 2^96).
int calls_per_sample(std::size_t bytes) {
  if (bytes <= 64 * 1024) return 32;
  return bytes <= (1U << 20) ? 8 : 1;
}

// The seconds that `calls` take on the slowest rank, on numbers that show rank and place.
double time(const Communicator& comm, const Candidate& candidate, std::size_t count,
            int calls) {
  const std::span<float> data = candidate.memory.first(count);
  fill_tracer_numbers(data, comm.rank());
  candidate.run(data.first(0));
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) candidate.run(data);
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm.get()));
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 64U << 20, .iterations = 15};
  std::string only = "all";
  CommandLine command_line("all_reduce_bench",
                           "Times our all-reduces, MPI's own and memcpy alternately.");
  sweep.declare(command_line, /*smallest=*/4);
  sweep.declare_iterations(command_line);
  command_line.choice("--only", only, {"all", "mpi"}, "which candidates");
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const std::size_t most = sweep.max_bytes / sizeof(float);
  AllReducer reducer(comm);
  const Tensor registered = reducer.allocate({most});
  const Tensor ordinary({most}, Device{});
  const Tensor target({most}, Device{});
  const auto by = [&](AllReduceAlgorithm algorithm) {
    return [&reducer, algorithm](std::span<float> data) {
      reducer.all_reduce(data, ReduceOp::sum, algorithm);
    };
  };
  std::vector<Candidate> candidates{
      {"mpi", ordinary.span(), by(AllReduceAlgorithm::mpi)},
      {"ring", ordinary.span(), by(AllReduceAlgorithm::ring)},
      {"auto", registered.span(), by(AllReduceAlgorithm::automatic)},
      {"auto-ordinary", ordinary.span(), by(AllReduceAlgorithm::automatic)},
      {"memcpy", ordinary.span(), [&](std::span<float> data) {
         std::memcpy(target.data(), data.data(), data.size_bytes());
         asm volatile("" ::"r"(target.data()) : "memory");  // the copy must happen
       }}};
  if (only == "mpi") candidates.resize(1);

  const Console console(/*json=*/true, comm.rank() == 0);
  const auto sum = [&](std::size_t i) {
    double total = 0;
    for (int rank = 0; rank < comm.size(); ++rank) total += tracer_number(rank, i);
    return total;
  };
  bool right = true;
  for (const std::size_t bytes : sweep.sizes()) {
    const std::size_t count = bytes / sizeof(float);
    const int calls = calls_per_sample(bytes);
    // A fast but wrong all-reduce is not a candidate, so the first call of each is checked.
    for (const Candidate& candidate : candidates) {
      time(comm, candidate, count, 1);
      right = right && (candidate.name == "memcpy" ||
                        count_wrong(candidate.memory.first(count), sum) == 0);
    }
    std::vector<std::vector<double>> seconds(candidates.size());
    for (int round = 0; round < sweep.iterations; ++round) {
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        seconds[c].push_back(time(comm, candidates[c], count, calls) / calls);
      }
    }
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      console.row({{"name", candidates[c].name},
                   {"bytes", bytes},
                   {"ranks", comm.size()},
                   {"time_us", significant(1e6 * median(seconds[c]))}});
    }
  }
  return comm.all_agree(right) ? 0 : 1;
}
