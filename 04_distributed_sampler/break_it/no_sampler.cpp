// Belief:  DDP divides the data among the ranks.
// Predict: every rank shuffles the data with the same seed and loads batches of 8, without a
//          sampler. How many different samples does a step on 4 ranks take, and how many
//          different gradients does it compute?
// You see: 8 samples instead of 32, and the same gradient on all ranks. The average of N equal
//          gradients is that gradient, so a step learns no more than one rank alone would. An
//          epoch takes every sample N times, so it has N times as many steps as with a sampler.
// Why:     DDP averages gradients and never sees the data. The sampler divides the work.
// In the wild: Lightning-AI/pytorch-lightning#7813 (as many batches on 6 GPUs as on 1),
//          Parskatt/RoMa#32, PatrickHua/SimSiam#16.
#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/break_it/distinct.hpp"
#include "04_distributed_sampler/break_it/experiments.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/show/coverage.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kBatch = 8;

// The gradient of a linear model that guesses a digit's value from its pixels. The untrained
// model guesses 0, so the gradient is the mean of -value * pixel.
std::vector<float> gradient_of(const Batch& batch) {
  const std::span<const float> pixels = batch.inputs.span();
  std::vector<float> gradient(pixels.size() / batch.rows());
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const auto value = static_cast<float>(batch.targets[row]);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] -= value * pixels[row * gradient.size() + i] / kBatch;
    }
  }
  return gradient;
}

struct Epoch {
  std::size_t steps = 0;
  std::size_t taken_in_step = 0, unique_in_step = 0;  // over all ranks, in the first step
  std::size_t gradients = 0;                          // different gradients in the first step
  std::size_t taken = 0;                              // in the whole epoch
};

Epoch first_step(const Program& program, const Dataset& digits,
                 const std::vector<std::size_t>& mine) {
  const Communicator& comm = program.comm;
  const Stream host{Device{}};  // the CPU, whatever --device says
  DataLoader loader(digits, kBatch, false, host);
  DataLoader::Range range = loader.over(mine);
  const std::vector<float> gradient = gradient_of(*range.begin());
  const Coverage step =
      count_coverage(comm, digits.size(), std::vector(mine.begin(), mine.begin() + kBatch));
  return {loader.batches(mine.size()), step.taken, step.once + step.again,
          count_distinct(comm, fingerprint(gradient)),
          count_coverage(comm, digits.size(), mine).taken};
}

}  // namespace

bool break_no_sampler(const Program& program) {
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const IdxDataset digits = digits_dataset(4 * kBatch * ranks, 0);
  // The samples that DataLoader(dataset, shuffle=True) takes if all ranks call manual_seed with
  // the same seed.
  const Epoch without =
      first_step(program, digits, DistributedSampler(digits.size(), 1, 0).indices());
  const Epoch sampled = first_step(
      program, digits, DistributedSampler(digits.size(), comm.size(), comm.rank()).indices());

  program.console.line(
      fmt::format("{} digits on {} ranks, batches of {}", digits.size(), comm.size(), kBatch));
  Table table({"", "samples per step", "different", "gradients", "steps per epoch",
               "samples per epoch"});
  for (const auto& [name, epoch] : {std::pair{"no sampler", without}, {"sampler", sampled}}) {
    table.add({name, std::to_string(epoch.taken_in_step), std::to_string(epoch.unique_in_step),
               std::to_string(epoch.gradients), std::to_string(epoch.steps),
               std::to_string(epoch.taken)});
    program.console.row({{"break", "no-sampler"},
                         {"ranks", ranks},
                         {"with", name},
                         {"samples", digits.size()},
                         {"taken_in_step", epoch.taken_in_step},
                         {"unique_in_step", epoch.unique_in_step},
                         {"different_gradients", epoch.gradients},
                         {"steps", epoch.steps},
                         {"taken", epoch.taken}});
  }
  table.print(program.console);
  return without.unique_in_step * ranks == without.taken_in_step && without.gradients == 1 &&
         without.taken == ranks * digits.size() &&
         sampled.unique_in_step == sampled.taken_in_step && sampled.gradients == ranks;
}

}  // namespace dist
