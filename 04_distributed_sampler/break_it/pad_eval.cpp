// Belief:  no two ranks see the same sample, so the accuracy over all ranks is the accuracy on
//          the data set.
// Predict: a model gets 8 of 10 samples right. Does its evaluation on 4 ranks report 80 %?
// You see: it counts 12 samples. It reports 83.33 % if the model gets the two repeated samples
//          right, and 66.67 % otherwise. Exact shards give 80 % in both cases.
// Why:     the sampler pads until all ranks have the same number of samples. Equal counts keep
//          training steps from hanging (uneven.cpp). An evaluation does not need them: sums and
//          counts from uneven shards add up to the right totals.
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "common/program.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dist {

bool break_pad_eval(const Program& program) {
  constexpr std::size_t kMistakes = 2;
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t samples = 3 * ranks - (ranks > 2 ? 2 : 1);  // 10 on 4 ranks
  const std::vector<std::size_t> padded =
      DistributedSampler(samples, comm.size(), comm.rank(), {.shuffle = false}).indices();
  const std::vector<std::size_t> exact = exact_shard(samples, comm.size(), comm.rank());
  // The model misclassifies kMistakes samples, beginning with sample `first`.
  const auto accuracy = [&](const std::vector<std::size_t>& mine, std::size_t first) {
    const auto right = std::ranges::count_if(
        mine, [&](std::size_t i) { return i < first || i >= first + kMistakes; });
    return mean_over_samples(comm, static_cast<double>(right), mine.size());
  };
  const double truth = static_cast<double>(samples - kMistakes) / static_cast<double>(samples);
  const Coverage counted = count_coverage(comm, samples, padded);

  program.console.line(
      fmt::format("{} samples on {} ranks: {} counted; {} samples more than once", samples,
                  comm.size(), counted.taken, counted.again));
  Table table({"misclassified", "truth", "padded", "exact shards"});
  bool appeared = counted.taken > samples;
  for (const std::size_t first : {samples - kMistakes, std::size_t{0}}) {
    const double on_padded = accuracy(padded, first), on_exact = accuracy(exact, first);
    const auto percent = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
    table.add({fmt::format("{} and {}", first, first + 1), percent(truth), percent(on_padded),
               percent(on_exact)});
    appeared = appeared && on_padded != truth && on_exact == truth;
  }
  table.print(program.console);
  return appeared;
}

}  // namespace dist
