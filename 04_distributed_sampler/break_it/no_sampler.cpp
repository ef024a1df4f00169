// Belief:  DDP divides the data among the ranks.
// Predict: every rank shuffles the data with the same seed and loads batches of 8, without a
//          sampler. How many different samples does a step on 4 ranks take, and how many
//          different gradients does it compute?
// You see: 8 samples instead of 32, and the same gradient on all ranks, so a step learns no
//          more than one rank alone would. An epoch has N times as many steps as with one.
// Why:     DDP averages gradients and never sees the data. The sampler divides the work.
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/hash.hpp"
#include "common/program.hpp"

#include <set>
#include <string>
#include <vector>

namespace dist {

constexpr std::size_t kBatch = 8;

// The gradient of a linear model that guesses a digit's value from its pixels. The untrained
// model guesses 0, so the gradient is the mean of -value * pixel.
static std::vector<float> gradient_of(const Dataset& digits,
                                      const std::vector<std::size_t>& batch) {
  std::vector<float> gradient(digits.features()), pixels(digits.features());
  for (const std::size_t sample : batch) {
    const auto value = static_cast<float>(digits.get(sample, pixels));
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] -= value * pixels[i] / kBatch;
  }
  return gradient;
}

bool break_no_sampler(const Program& program) {
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const IdxDataset digits = digits_dataset(4 * kBatch * ranks, 0);
  program.console.line("{} digits on {} ranks, batches of {}", digits.size(), comm.size(),
                       kBatch);
  Table table({"", "samples per step", "different", "gradients", "steps per epoch"});
  // Adds a line about the first step. Returns how many different gradients it computes.
  const auto add = [&](const char* name, const std::vector<std::size_t>& mine) {
    const std::vector batch(mine.begin(), mine.begin() + kBatch);
    const Coverage step = count_coverage(comm, digits.size(), batch);
    const auto hashes = comm.all_gather(hash_of(gradient_of(digits, batch)));
    const std::size_t gradients = std::set(hashes.begin(), hashes.end()).size();
    table.add({name, std::to_string(step.taken), std::to_string(step.once + step.again),
               std::to_string(gradients), std::to_string(mine.size() / kBatch)});
    return gradients;
  };
  // What DataLoader(dataset, shuffle=True) takes if all ranks call manual_seed with one seed.
  const std::size_t without =
      add("no sampler", DistributedSampler(digits.size(), 1, 0).indices());
  const std::size_t sampled =
      add("sampler", DistributedSampler(digits.size(), comm.size(), comm.rank()).indices());
  table.print(program.console);
  return without == 1 && sampled == ranks;
}

}  // namespace dist
