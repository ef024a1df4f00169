// What broadcasts cost: each algorithm's time at each size, beside its prediction, and the
// rounds that a run took.
//
//   mpirun -np 4 build/bin/broadcast_perf
//   mpirun -np 2 build/bin/broadcast_perf --device cuda --algorithm nccl    one GPU per rank
//
// Builds on: broadcast_cost, and the watch, which counts the rounds.
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/perf/broadcast_cost.hpp"
#include "02_broadcast/perf/share_link_cost.hpp"
// From lesson 1, and from common/:
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/nccl_flag.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/join.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace dist;

namespace {

struct Run {
  const Program& program;
  int root;
  int iterations;
  std::optional<LinkCost> link;          // lesson 1's measurement, the same on all ranks
  std::optional<NcclCommunicator> nccl;  // set if one of the algorithms is nccl
};

// Unknown values are nullopt: MPI and NCCL do not reveal their algorithms.
struct Measurement {
  double seconds = 0;
  std::uint64_t wrong = 0;              // elements, on all ranks and in all repetitions
  std::optional<std::uint64_t> rounds;  // counted in a run
  int formula_rounds = 0;               // by the formula
  std::optional<double> predicted;      // seconds
};

Measurement measure(Run& run, const std::string& algorithm, std::size_t bytes) {
  const Communicator& comm = run.program.comm;
  const Stream& stream = run.program.stream;
  const Shape shape{bytes / sizeof(float)};
  const Tensor tensor =
      algorithm == "nccl" ? allocate_nccl(*run.nccl, shape) : Tensor(shape, stream.device());
  const LinkCost link = run.link.value_or(LinkCost{});
  // The root has its tracer numbers, and the others have NaN, which never equals a right
  // answer.
  const auto fill = [&] {
    on_host(stream, tensor, [&](std::span<float> data) {
      std::ranges::fill(data, std::numeric_limits<float>::quiet_NaN());
      if (comm.rank() == run.root) fill_tracer_numbers(data, run.root);
    });
  };
  const auto queue = [&] { broadcast_nccl(*run.nccl, tensor, run.root, stream); };
  const auto wait = [&] { run.nccl->synchronize(stream); };
  const auto operation = [&] {
    if (algorithm == "nccl") {
      queue();
      return wait();
    }
    // Our broadcasts only pass the memory on to MPI; they do not read it.
    for_mpi(stream, tensor, [&](std::span<float> data) {
      broadcast(comm, data, run.root, kBroadcastAlgorithms.at(algorithm), link);
    });
  };
  Measurement result;
  const auto check = [&] {
    result.wrong += count_wrong(to_host(stream, tensor),
                                [&](std::size_t i) { return tracer_number(run.root, i); });
  };
  result.seconds = median_of_slowest(comm, run.iterations, fill, operation, check);
  if (algorithm == "nccl") {
    result.seconds = seconds_in_a_row(comm, run.iterations, queue, wait);
  }
  const auto cost = algorithm == "nccl" ? std::nullopt
                                        : predict_broadcast(kBroadcastAlgorithms.at(algorithm),
                                                            bytes, comm.size(), link);
  if (cost) {
    fill();
    if (const auto traffic = count_traffic(comm, operation)) result.rounds = traffic->rounds;
    check();
  }
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &result.wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  if (!cost) return result;
  result.formula_rounds = cost->rounds;
  // There is no prediction for GPUs: lesson 1's curves include a copy to the host per round
  // trip, but a broadcast needs only one such copy.
  const bool cpu_only =
      stream.device().is_cpu() && run.link && run.link->device == DeviceType::cpu;
  if (cpu_only) result.predicted = cost->seconds;
  return result;
}

Json row_of(const Run& run, const std::string& algorithm, std::size_t bytes,
            const Measurement& m) {
  return {{"algorithm", algorithm},
          {"bytes", bytes},
          {"ranks", run.program.comm.size()},
          {"time_us", significant(1e6 * m.seconds)},
          {"rounds", m.rounds ? Json(*m.rounds) : Json()},
          {"wrong", m.wrong},
          {"predicted_us", m.predicted ? Json(significant(1e6 * *m.predicted)) : Json()}};
}

// Formats the time and the error of its prediction, for example "12.1 (-8%)".
std::string time_and_error(const Measurement& m) {
  std::string text = fmt::format("{:.1f}", 1e6 * m.seconds);
  if (m.predicted) text += fmt::format(" ({:+.0f}%)", 100 * (*m.predicted / m.seconds - 1));
  if (m.wrong != 0) text += " WRONG";
  return text;
}

// Returns, on all ranks, whether every element on every rank was right.
bool show_times(Run& run, const std::vector<std::string>& algorithms,
                const std::vector<std::size_t>& sizes) {
  const Console& console = run.program.console;
  std::string title = "times in microseconds, on the slowest rank";
  if (run.link) {
    title += fmt::format(
        "; in brackets, how far off the prediction is\n(alpha {:.2f} us, beta {:.4f} ns per "
        "byte, from lesson 1's ping-pong on {} ranks)",
        1e6 * run.link->alpha_s, 1e9 * run.link->beta_s_per_byte, run.link->ranks);
  }
  console.line(title);
  std::vector<std::string> header{"size"};
  header.insert(header.end(), algorithms.begin(), algorithms.end());
  Table table(header);
  bool correct = true;
  std::vector<std::string> rounds;  // for the largest size
  for (const std::size_t bytes : sizes) {
    std::vector<std::string> cells{format_bytes(bytes)};
    for (const std::string& algorithm : algorithms) {
      const Measurement m = measure(run, algorithm, bytes);
      correct = correct && m.wrong == 0;
      console.row(row_of(run, algorithm, bytes, m));
      cells.push_back(time_and_error(m));
      if (bytes == sizes.back() && m.rounds) {
        rounds.push_back(fmt::format("{} {} ({})", algorithm, *m.rounds, m.formula_rounds));
      }
    }
    table.add(cells);
  }
  table.print(console);
  if (!rounds.empty()) {
    console.line(fmt::format("rounds at {}, counted (and by the formula):\n  {}",
                             format_bytes(sizes.back()), join(rounds, ", ")));
  }
  return correct;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("broadcast_perf", "What broadcasts cost, by algorithm and size.");
  const Communicator& comm = program.comm;

  std::vector<std::string> algorithms{"flat", "tree", "pipeline", "scatter-all-gather", "mpi"};
  std::string wanted = "all";
  int root = 0;
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 4U << 20, .iterations = 20};
  std::vector<std::string> names = algorithms;
  names.insert(names.end(), {"nccl", "all"});
  program.flags.choice("--algorithm", wanted, names, "the broadcast algorithm");
  program.flags.number("--root", root, 0, comm.size() - 1, "the rank that broadcasts");
  sweep.declare(program.flags, /*smallest=*/sizeof(float));
  program.declare_common();
  std::string no_nccl;
  check_nccl_flag(program, "--algorithm", wanted, no_nccl);
  program.flags.advanced();
  sweep.declare_iterations(program.flags);
  std::optional<LinkCost> kept;  // on rank 0 only
  program.flags.check([&] {
    if (comm.rank() == 0) kept = load_link_cost();
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const bool all = wanted == "all";
  if (!all) algorithms = {wanted};
  if (all && no_nccl.empty()) algorithms.emplace_back("nccl");
  Run run{program, root, sweep.iterations, share_link_cost(comm, kept), std::nullopt};
  const Device device = program.device.device;
  if (algorithms.back() == "nccl") run.nccl.emplace(connect_nccl(comm, device));

  const Console& console = program.console;
  console.line(describe_run(comm.size(), program.device) + describe_messages(device));
  if (all && !no_nccl.empty()) console.line("no nccl: " + no_nccl);
  const bool correct = show_times(run, algorithms, sweep.sizes());
  if (!run.link) {
    console.line(fmt::format(
        "to see predictions, first run mpirun -np {} build/bin/send_recv_perf", comm.size()));
  }
  return console.verdict(comm.all_agree(correct),
                         "every element on every rank, for every algorithm and size",
                         "some rank does not hold the root's numbers");
}
