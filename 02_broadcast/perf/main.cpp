// What broadcasts cost: each algorithm's time at each size, beside its prediction, and the
// rounds that a run took.
//
//   mpirun -np 4 build/bin/broadcast_perf
//   mpirun -np 2 build/bin/broadcast_perf --device cuda --algorithm nccl    one GPU per rank
//
// Builds on: broadcast_cost, and lesson 1's comparison.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/perf/comparison.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/broadcast.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "02_broadcast/perf/broadcast_cost.hpp"
#include "common/mpi_environment.hpp"

#include <algorithm>
#include <limits>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("broadcast_perf", "What broadcasts cost, by algorithm and size.");
  const Communicator& comm = program.comm;
  int root = 0;
  // The root has its tracer numbers, and the others have NaN, which never equals a right
  // answer.
  const auto fill = [&](std::span<float> data) {
    std::ranges::fill(data, std::numeric_limits<float>::quiet_NaN());
    if (comm.rank() == root) fill_tracer_numbers(data, root);
  };
  const auto count_mistakes = [&](std::span<const float> data) {
    return count_wrong(data, [&](std::size_t i) { return tracer_number(root, i); });
  };
  Comparison comparison{.program = program,
                        .sweep = {.min_bytes = 1024, .max_bytes = 4U << 20},
                        .iterations = 20,
                        .bus_factor = 1,
                        .fill = fill,
                        .count_wrong = count_mistakes};
  program.flags.number("--root", root, 0, comm.size() - 1, "the rank that broadcasts");
  std::vector<std::string> names = kBroadcastAlgorithms.all();
  names.push_back("nccl");
  comparison.declare(names, "the broadcast algorithm", /*smallest=*/sizeof(float));
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Stream& stream = program.stream;
  const Shape longest{comparison.sweep.max_bytes / sizeof(float)};
  const Tensor ordinary(longest, stream.device());
  const LinkCost link = comparison.link.value_or(LinkCost{});
  comparison.notes = describe_messages(stream.device());
  std::optional<NcclCommunicator> nccl;
  std::vector<Candidate> candidates;
  for (const std::string& name : names) {
    if (!comparison.includes(name, name == "nccl" ? comparison.no_nccl : "")) continue;
    if (name == "nccl") {
      nccl.emplace(connect_nccl(comm, stream.device()));
      candidates.push_back(
          {.name = name,
           .memory = allocate_nccl(*nccl, longest),
           .run = [&](const Tensor& tensor) { broadcast_nccl(*nccl, tensor, root, stream); },
           .wait = [&] { nccl->synchronize(stream); },
           .in_a_row = [&](std::size_t) { return std::min(20, comparison.iterations); }});
      continue;
    }
    const BroadcastAlgorithm algorithm = kBroadcastAlgorithms.at(name);
    // Our broadcasts only pass the memory on to MPI; they do not read it.
    const auto run = [&, algorithm](const Tensor& tensor) {
      for_mpi(stream, tensor,
              [&](std::span<float> data) { broadcast(comm, data, root, algorithm, link); });
    };
    const auto predict = [&, algorithm](std::size_t bytes) -> std::optional<double> {
      const auto cost = predict_broadcast(algorithm, bytes, comm.size(), link);
      return cost ? std::optional(cost->seconds) : std::nullopt;
    };
    candidates.push_back({.name = name, .memory = ordinary, .run = run, .predict = predict});
  }
  return comparison.run(candidates);
}
