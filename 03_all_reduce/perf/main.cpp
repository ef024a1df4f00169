// What each all-reduce costs, MPI's and NCCL's included: times, counts and predictions, by
// size.
//
//   mpirun -np 2 build/bin/all_reduce_perf
//   mpirun -np 4 build/bin/all_reduce_perf --algorithm ring --json --max-bytes 65536
//
// Builds on: choice/cost_model, and lesson 1's comparison.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/perf/comparison.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "common/mpi_environment.hpp"

#include <algorithm>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("all_reduce_perf", "What each all-reduce costs, by size.");
  const Communicator& comm = program.comm;
  const int ranks = comm.size();
  ReduceOp op = ReduceOp::sum;
  bool registered = true;
  const auto fill = [&](std::span<float> data) { fill_tracer_numbers(data, comm.rank()); };
  const auto expected = [&](std::size_t i) {
    if (op == ReduceOp::max) return double{tracer_number(ranks - 1, i)};
    return tracer_sum(ranks, i) / (op == ReduceOp::avg ? ranks : 1);
  };
  const auto count_mistakes = [&](std::span<const float> data) {
    // Whole numbers below 2^24 are summed exactly. A larger sum or an average may be rounded in
    // each of up to `size` operations.
    const double tolerance = op == ReduceOp::max ? 0.0 : ranks * 0x1p-24;
    return count_wrong(data, expected, tolerance);
  };
  Comparison comparison{.program = program,
                        .sweep = {.min_bytes = 1024, .max_bytes = 16U << 20},
                        .iterations = 10,
                        .bus_factor = 2.0 * (ranks - 1) / ranks,
                        .fill = fill,
                        .count_wrong = count_mistakes};
  std::vector<std::string> names = kAllReduceAlgorithms.all();
  names.insert(names.end(), {"nccl", "memcpy"});
  CommandLine& flags = program.flags;
  flags.choice("--op", op, kReduceOps, "the operation");
  comparison.declare(names,
                     "the algorithm; auto: shared memory or the one predicted to be fastest; "
                     "memcpy: a copy of the result, the limit, and not part of all",
                     /*smallest=*/0);
  flags.flag("--registered,!--no-registered", registered,
             "use memory that all ranks of a host can access directly (the default)");
  flags.check([&] {
    if (comparison.wanted == "shared-memory") require_host_memory("--algorithm", comm);
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Stream& stream = program.stream;
  AllReducer reducer(comm, comparison.link);
  std::optional<NcclCommunicator> nccl;
  const Shape longest{comparison.sweep.max_bytes / sizeof(float)};
  std::vector<Candidate> candidates;
  for (const std::string& name : names) {
    std::string obstacle;
    if (name == "shared-memory") obstacle = reducer.why_no_shared_memory();
    if (name == "hierarchical" && !reducer.has_hierarchical()) obstacle = "needs several hosts";
    if (name == "nccl") obstacle = comparison.no_nccl;
    if (name == "memcpy" && comparison.wanted != name) continue;
    if (!comparison.includes(name, obstacle)) continue;
    if (name == "memcpy") {
      const Tensor result(longest, stream.device());
      on_host(stream, result, [&](std::span<float> data) {
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(expected(i));
      });
      const auto run = [&, result](const Tensor& tensor) {
        copy(stream, tensor, result.narrow(0, tensor.numel()));
      };
      candidates.push_back({.name = name, .run = run, .wait = [&] { stream.synchronize(); }});
      continue;
    }
    if (name == "nccl") {
      nccl.emplace(connect_nccl(comm, stream.device()));
      candidates.push_back(
          {.name = name,
           .run = [&](const Tensor& tensor) { all_reduce_nccl(*nccl, tensor, op, stream); },
           .wait = [&] { nccl->synchronize(stream); },
           .in_a_row = [&](std::size_t) { return std::min(20, comparison.iterations); }});
      continue;
    }
    const AllReduceAlgorithm algorithm = kAllReduceAlgorithms.at(name);
    const auto run = [&, algorithm](const Tensor& tensor) {
      on_host(stream, tensor,
              [&](std::span<float> data) { reducer.all_reduce(data, op, algorithm); });
    };
    const auto chosen = [&, algorithm](std::size_t bytes) {
      return reducer.chosen(algorithm, bytes);
    };
    const auto predict = [&, chosen](std::size_t bytes) {
      return predict_all_reduce(chosen(bytes), static_cast<double>(bytes), ranks,
                                reducer.costs());
    };
    candidates.push_back(
        {.name = name,
         .run = run,
         .chosen = [chosen](std::size_t bytes) { return to_string(chosen(bytes)); },
         .predict = predict});
  }
  const bool on_cpu = stream.device().is_cpu();
  const Tensor memory = registered && on_cpu ? reducer.allocate(longest)
                        : registered && nccl ? allocate_nccl(*nccl, longest)
                                             : Tensor(longest, stream.device());
  for (Candidate& candidate : candidates) {
    candidate.memory = memory;
    if (!on_cpu) continue;
    // Enough calls to hide the clock; 32 on 8 ranks multiply sums by 2^96, which stays finite.
    // Their results are not checked, so only for the fastest, which send no messages of ours.
    candidate.in_a_row = [chosen = candidate.chosen](std::size_t bytes) {
      const std::string runs = chosen ? chosen(bytes) : "memcpy";
      const bool fast = runs == "shared-memory" || runs == "mpi" || runs == "memcpy";
      return fast && bytes <= 64 * 1024 ? 32 : 1;
    };
  }
  return comparison.run(candidates);
}
