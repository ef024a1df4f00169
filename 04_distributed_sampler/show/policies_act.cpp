#include "04_distributed_sampler/show/acts.hpp"
#include "04_distributed_sampler/show/coverage.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace dist {
namespace {

struct Policy {
  const char* name;
  std::vector<std::size_t> mine;
};

// An evaluation takes the samples unshuffled, as is usual in PyTorch.
std::array<Policy, 3> policies_of(const SamplingOptions& options) {
  const auto sampled = [&](bool drop_last) {
    return DistributedSampler(options.size, options.num_replicas, options.rank,
                              {.shuffle = false, .drop_last = drop_last})
        .indices();
  };
  return {Policy{"pad", sampled(false)}, Policy{"drop", sampled(true)},
          Policy{"exact", exact_shard(options.size, options.num_replicas, options.rank)}};
}

std::string percent(double fraction) {
  return fmt::format("{:.2f} %", 100 * fraction);
}

// "4", or "3 to 4" if the ranks' counts differ.
std::string per_rank(const Coverage& coverage) {
  if (coverage.fewest == coverage.most) return std::to_string(coverage.most);
  return fmt::format("{} to {}", coverage.fewest, coverage.most);
}

}  // namespace

bool show_policies(const SamplingOptions& options, const Console& console,
                   const Communicator& comm) {
  if (options.size == 0) return true;  // nothing to distribute
  // The model's mistakes are known, so that you can check every accuracy by hand.
  const std::size_t mistakes = std::clamp<std::size_t>(options.size / 4, 1, 2);
  const std::size_t first_wrong = options.size - mistakes;
  const auto right_among = [&](const std::vector<std::size_t>& samples) {
    return static_cast<double>(
        std::ranges::count_if(samples, [&](std::size_t i) { return i < first_wrong; }));
  };
  const double truth = static_cast<double>(first_wrong) / static_cast<double>(options.size);

  console.line(fmt::format(
      "accuracy of a model that misclassifies the last {} (truth: {}), by policy",
      mistakes == 1 ? "sample" : fmt::format("{} samples", mistakes), percent(truth)));
  Table table({"policy", "taken", "per rank", "once", "repeated", "never", "accuracy"});
  bool correct = true;
  double weighted = 0, mean_of_means = 0;
  for (const Policy& policy : policies_of(options)) {
    const Coverage seen = count_coverage(comm, options.size, policy.mine);
    const double right = right_among(policy.mine);
    weighted = mean_over_samples(comm, right, policy.mine.size());
    std::array own{right / static_cast<double>(policy.mine.size())};
    all_reduce<double>(comm, own, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
    mean_of_means = own[0];
    table.add({policy.name, std::to_string(seen.taken), per_rank(seen),
               std::to_string(seen.once), std::to_string(seen.again),
               std::to_string(seen.never), seen.taken == 0 ? "-" : percent(weighted)});
    console.row({{"act", "policies"},
                 {"policy", policy.name},
                 {"num_replicas", options.num_replicas},
                 {"taken", seen.taken},
                 {"fewest_per_rank", seen.fewest},
                 {"most_per_rank", seen.most},
                 {"once", seen.once},
                 {"again", seen.again},
                 {"never", seen.never},
                 {"accuracy", significant(weighted)},
                 {"mean_of_means", significant(mean_of_means)}});
    correct = correct && seen.even;
    if (policy.name == std::string("pad")) correct = correct && seen.never == 0;
    if (policy.name == std::string("drop")) correct = correct && seen.again == 0;
    // The accuracies must agree to the last bit, because sums of whole numbers are exact.
    if (policy.name == std::string("exact")) {
      correct = correct && seen.once == options.size && weighted == truth;
    }
  }
  table.print(console);
  console.line(
      fmt::format("on exact shards, the mean of the ranks' means is {}, "
                  "or {} if weighted by their counts",
                  percent(mean_of_means), percent(weighted)));
  return comm.all_agree(correct);
}

}  // namespace dist
