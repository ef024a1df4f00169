// Belief:  a different seed on each rank (seed + rank) shuffles better.
// Predict: each rank takes 100 samples. What share of all samples do the ranks see in an epoch?
// You see: about two thirds on 4 ranks. Some samples are taken by several ranks, and others by
//          none. With one common seed, each sample is taken once.
// Why:     the ranks should take the entries of one order in turn. A rank with an order of its
//          own takes a random 1/N of the data, so the probability that all N ranks leave out a
//          given sample is (1 - 1/N)^N. Only counting over all ranks shows the mistake.
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/program.hpp"

#include <fmt/format.h>

#include <string>

namespace dist {

bool break_rank_seed(const Program& program) {
  const Communicator& comm = program.comm;
  const auto samples = 100 * static_cast<std::size_t>(comm.size());
  const auto coverage_with = [&](std::uint64_t seed) {
    const DistributedSampler sampler(samples, comm.size(), comm.rank(), {.seed = seed});
    return count_coverage(comm, samples, sampler.indices());
  };
  const Coverage own =
      coverage_with(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  const Coverage common = coverage_with(program.common.seed);

  program.console.line("{} samples on {} ranks, one epoch", samples, comm.size());
  Table table({"seed", "taken", "once", "repeated", "never", "share never seen"});
  for (const auto& [name, seen] : {std::pair{"seed + rank", own}, {"seed", common}}) {
    const double never = static_cast<double>(seen.never) / static_cast<double>(samples);
    table.add({name, std::to_string(seen.taken), std::to_string(seen.once),
               std::to_string(seen.again), std::to_string(seen.never),
               fmt::format("{:.1f} %", 100 * never)});
  }
  table.print(program.console);
  return own.taken == samples && own.again > 0 && own.never > 0 && common.once == samples;
}

}  // namespace dist
