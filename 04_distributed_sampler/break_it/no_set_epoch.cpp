// Belief:  the sampler reshuffles in every epoch, as DataLoader does with shuffle=True.
// Predict: how many different orders do five epochs have without set_epoch?
// You see: one. With set_epoch, there are five different orders.
// Why:     the order is drawn from seed + epoch, and the epoch stays 0 until set_epoch changes
//          it (distributed_sampler.cpp, indices).
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <set>
#include <span>
#include <vector>

namespace dist {

bool break_no_set_epoch(const Program& program) {
  constexpr std::uint64_t kEpochs = 5;
  const Communicator& comm = program.comm;
  const auto samples = 100 * static_cast<std::size_t>(comm.size());
  const SamplerOptions options{.seed = program.common.seed};
  const DistributedSampler forgotten(samples, comm.size(), comm.rank(), options);
  DistributedSampler told(samples, comm.size(), comm.rank(), options);
  std::set<std::vector<std::size_t>> without, with;
  const auto begin_of = [](const std::vector<std::size_t>& order) {
    return join(std::span(order).first(5), " ") + " ...";
  };
  program.console.line("rank 0's first 5 of 100 samples");
  Table table({"epoch", "no set_epoch", "set_epoch"});
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    told.set_epoch(epoch);
    table.add({std::to_string(epoch), begin_of(forgotten.indices()), begin_of(told.indices())});
    without.insert(forgotten.indices());
    with.insert(told.indices());
  }
  table.print(program.console);
  program.console.line("different orders: {} without set_epoch, {} with it", without.size(),
                       with.size());
  return without.size() == 1 && with.size() == kEpochs;
}

}  // namespace dist
