// Lesson 2: one rank's tensor becomes everybody's.
//
//   mpirun -np 4 build/bin/broadcast        four numbers, all algorithms, then a model
//   mpirun -np 7 build/bin/broadcast --algorithm tree --root 5
//
// Read flat.hpp, binomial_tree.hpp and pipelined_chain.hpp first, in this order.
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"
#include "common/host_copy.hpp"
#include "common/measure.hpp"
#include "common/mpi_environment.hpp"
#include "common/random.hpp"
#include "common/sweep_options.hpp"
#include "common/tracer_numbers.hpp"
#include "common/why_no_nccl.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace dist;

const std::map<std::string, BroadcastAlgorithm> kAlgorithms{
    {"flat", BroadcastAlgorithm::flat},
    {"tree", BroadcastAlgorithm::tree},
    {"pipeline", BroadcastAlgorithm::pipeline},
    {"mpi", BroadcastAlgorithm::mpi}};

struct Options {
  CommonOptions common;
  std::string algorithm = "all";
  int root = 0;
  SweepOptions sweep{.min_bytes = 1024, .max_bytes = 4U << 20, .iterations = 20};
};

// What all acts share.
struct Context {
  const Options& options;
  const Communicator& comm;
  const Console& console;
  const Stream& stream;
  std::optional<NcclCommunicator>& nccl;
};

void run(const Context& context, const std::string& algorithm, const Tensor& tensor) {
  if (algorithm == "nccl") {
    broadcast_nccl(*context.nccl, tensor, context.options.root, context.stream);
    context.nccl->synchronize(context.stream);
    return;
  }
  on_host(context.stream, tensor, [&](std::span<float> data) {
    broadcast<float>(context.comm, data, context.options.root, kAlgorithms.at(algorithm));
  });
}

// Fills root's tensor with its tracer numbers and everybody else's with NaN, which no later
// arithmetic can turn into a right answer.
void fill(const Context& context, const Tensor& tensor) {
  on_host(context.stream, tensor, [&](std::span<float> data) {
    if (context.comm.rank() == context.options.root) {
      fill_tracer_numbers(data, context.comm.rank());
    } else {
      std::fill(data.begin(), data.end(), std::numeric_limits<float>::quiet_NaN());
    }
  });
}

// Wrong elements over all ranks; the same on all ranks.
std::size_t wrong_elements(const Context& context, const Tensor& tensor) {
  const std::vector<float> data = to_host(context.stream, tensor);
  std::uint64_t wrong =
      count_wrong(data, [&](std::size_t i) { return tracer_number(context.options.root, i); });
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, context.comm.get()));
  return wrong;
}

// Act 1: the four numbers of lesson 1.
bool show_four_numbers(const Context& context, const std::string& algorithm) {
  const Tensor tensor({4}, context.stream.device());
  on_host(context.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, context.comm.rank()); });
  const std::vector<float> before = to_host(context.stream, tensor);
  run(context, algorithm, tensor);
  context.console.line(
      fmt::format("{}: rank {}'s four numbers to all", algorithm, context.options.root));
  lines_in_rank_order(
      context.console, context.comm,
      fmt::format("  rank {}  {:6}  ->  {:6}", context.comm.rank(), fmt::join(before, " "),
                  fmt::join(to_host(context.stream, tensor), " ")));
  return wrong_elements(context, tensor) == 0;
}

// Act 2: every algorithm at every size; each run is checked on every element of every rank.
bool show_times(const Context& context, const std::vector<std::string>& algorithms) {
  std::vector<std::string> header{"size"};
  header.insert(header.end(), algorithms.begin(), algorithms.end());
  Table table(header);
  bool correct = true;
  for (const std::size_t bytes : context.options.sweep.sizes()) {
    const Tensor tensor({bytes / sizeof(float)}, context.stream.device());
    std::vector<std::string> cells{format_bytes(bytes)};
    for (const std::string& algorithm : algorithms) {
      const double seconds = median_of_slowest(
          context.comm, context.options.sweep.iterations, [&] { fill(context, tensor); },
          [&] { run(context, algorithm, tensor); });
      const std::size_t wrong = wrong_elements(context, tensor);
      correct = correct && wrong == 0;
      const int rounds = algorithm == "nccl" ? -1
                                             : broadcast_rounds(kAlgorithms.at(algorithm),
                                                                bytes, context.comm.size());
      cells.push_back(fmt::format("{:.1f}{}", 1e6 * seconds, wrong == 0 ? "" : " WRONG"));
      context.console.row({{"algorithm", algorithm},
                           {"bytes", bytes},
                           {"ranks", context.comm.size()},
                           {"time_us", significant(1e6 * seconds)},
                           {"rounds", rounds < 0 ? Json() : Json(rounds)},
                           {"wrong", wrong},
                           {"predicted_us", nullptr}});
    }
    table.add(cells);
  }
  context.console.line("times in microseconds, the slowest rank's");
  table.print(context.console);
  return correct;
}

// Act 3: what a broadcast is for. Every rank draws its own initial weights, as it would with a
// seed of its own; after the broadcast all replicas hold root's, to the bit. This is what
// DistributedDataParallel does in its constructor.
bool show_replicas(const Context& context, const std::string& algorithm) {
  constexpr std::size_t kInputs = 8;
  constexpr std::size_t kOutputs = 4;
  Generator generator(context.options.common.seed +
                      static_cast<std::uint64_t>(context.comm.rank()));
  std::vector<float> model(kOutputs * kInputs + kOutputs);
  const std::span<float> parameters(model);
  init_linear(parameters.first(kOutputs * kInputs), parameters.last(kOutputs), kInputs,
              generator);

  const Tensor tensor({model.size()}, context.stream.device());
  on_host(context.stream, tensor,
          [&](std::span<float> data) { std::copy(model.begin(), model.end(), data.begin()); });
  run(context, algorithm, tensor);
  const std::vector<float> after = to_host(context.stream, tensor);

  // Hashes for the reader, every element for the verdict: a second way, MPI's own, brings
  // root's.
  context.console.line(
      "a model of 36 parameters, drawn with seed + rank: hash before and after");
  lines_in_rank_order(context.console, context.comm,
                      fmt::format("  rank {}  {:016x}  ->  {:016x}", context.comm.rank(),
                                  fingerprint(model), fingerprint(after)));
  broadcast_mpi<float>(context.comm, model, context.options.root);
  return context.comm.all_agree(after == model);
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  Options options;
  DeviceChoice choice;
  CommandLine command_line("broadcast", "Lesson 2: one rank's tensor becomes everybody's.");
  command_line.choice("--algorithm", options.algorithm,
                      {"flat", "tree", "pipeline", "mpi", "nccl", "all"}, "which broadcast");
  command_line.number("--root", options.root, 0, 1 << 30, "the rank whose tensor it is");
  options.sweep.declare(command_line, /*smallest=*/sizeof(float));
  options.common.declare(command_line);
  command_line.advanced();
  options.sweep.declare_iterations(command_line);
  command_line.check([&] {
    if (options.root >= comm.size()) {
      throw Error(
          fmt::format("--root: there is no rank {} among {}", options.root, comm.size()));
    }
    choice = choose_device(options.common.device, comm.local_rank());
  });
  std::string no_nccl;
  command_line.check_together([&] {
    no_nccl = why_no_nccl(comm, choice.device);
    if (options.algorithm == "nccl" && !no_nccl.empty())
      throw Error("--algorithm: nccl: " + no_nccl);
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(options.common.json, comm.rank() == 0);
  const Stream stream(choice.device, options.common.threads);
  std::optional<NcclCommunicator> nccl;
  std::vector<std::string> algorithms{options.algorithm};
  if (options.algorithm == "all") {
    algorithms = {"flat", "tree", "pipeline", "mpi"};
    if (no_nccl.empty()) algorithms.emplace_back("nccl");
  }
  if (algorithms.back() == "nccl") nccl = connect_nccl(comm, choice.device);

  const bool left_out = options.algorithm == "all" && !no_nccl.empty();
  console.line(describe_run(comm.size(), choice) + (left_out ? "; no nccl: " + no_nccl : ""));
  const Context context{options, comm, console, stream, nccl};
  const std::string& shown = options.algorithm == "all" ? algorithms[1] : options.algorithm;
  bool correct = show_four_numbers(context, shown);
  correct &= show_times(context, algorithms);
  correct &= show_replicas(context, shown);
  return console.verdict(correct, "every element on every rank, for every algorithm and size",
                         "some rank does not hold root's numbers");
}
