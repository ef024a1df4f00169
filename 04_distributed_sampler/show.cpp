#include "04_distributed_sampler/show.hpp"

#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "common/check.hpp"
#include "common/join.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <string>

namespace dist {

// "rank 0   [3 11] [7 0]": the indices, batch by batch.
static std::string line_of(const Sampling& asked, std::span<const std::size_t> indices) {
  constexpr std::size_t kMostShown = 16;
  std::string text = fmt::format("  rank {}  ", asked.rank);
  const auto shown = indices.first(std::min(indices.size(), kMostShown));
  for (std::size_t begin = 0; begin < shown.size(); begin += asked.batch_size) {
    const std::size_t count = std::min(asked.batch_size, shown.size() - begin);
    text += fmt::format(" [{}]", join(shown.subspan(begin, count), " "));
  }
  if (indices.size() > kMostShown) text += fmt::format(" ... {} in total", indices.size());
  return text;
}

static std::string percent(double fraction) {
  return fmt::format("{:.2f} %", 100 * fraction);
}

// "4", or "3 to 4" if the ranks' counts differ.
static std::string per_rank(const Coverage& coverage) {
  if (coverage.fewest == coverage.most) return std::to_string(coverage.most);
  return fmt::format("{} to {}", coverage.fewest, coverage.most);
}

// The default is two samples fewer than three per rank, so that the run shows padding.
Sampling::Sampling(Program& program)
    : size(static_cast<std::size_t>(std::max(1, 3 * program.comm.size() - 2))),
      num_replicas(program.comm.size()),
      rank(program.comm.rank()) {
  CommandLine& flags = program.flags;
  flags.number<std::size_t>("--size", size, 0, 100'000'000, "samples in the data set");
  flags.flag("--shuffle,!--no-shuffle", options.shuffle, "random order (default)");
  flags.flag("--drop-last", options.drop_last, "drop the remainder instead of padding");
  flags.number<std::uint64_t>("--epoch", epoch, 0, 1U << 31, "epoch to show (set_epoch)");
  flags.number<std::size_t>("--batch-size", batch_size, 1, 1U << 20, "per rank");
  flags.number("--num-replicas", num_replicas, 1, 1 << 20,
               "with --rank: show one rank without launching this many");
  flags.number("--rank", rank, 0, 1 << 20, "see --num-replicas");
  flags.check([this, &program] {
    options.seed = program.common.seed;
    one_rank = program.flags.given("--rank");
    if (one_rank != program.flags.given("--num-replicas")) {
      throw Error("--rank: must be given together with --num-replicas");
    }
    if (rank >= num_replicas) {
      throw Error(
          fmt::format("--rank: there is no rank {} in a world of {}", rank, num_replicas));
    }
  });
}

void show_shard(const Program& program, const Sampling& asked,
                const DistributedSampler& sampler) {
  const std::vector<std::size_t> indices = sampler.indices();
  const std::string line = line_of(asked, indices);
  const Json row{{"rank", asked.rank},
                 {"num_replicas", asked.num_replicas},
                 {"epoch", asked.epoch},
                 {"num_samples", sampler.num_samples()},
                 {"total_size", sampler.total_size()},
                 {"indices", indices}};
  if (asked.one_rank) {
    program.console.line(line);
    program.console.row(row);
    return;
  }
  program.console.line(
      "{} samples on {} rank{}, epoch {}: {} per rank, {} in total; batches of {}", asked.size,
      asked.num_replicas, asked.num_replicas == 1 ? "" : "s", asked.epoch,
      sampler.num_samples(), sampler.total_size(), asked.batch_size);
  lines_in_rank_order(program.console, program.comm, line);
  rows_in_rank_order(program.console, program.comm, row);
}

bool show_policies(const Program& program, const Sampling& asked) {
  const Communicator& comm = program.comm;
  const std::size_t size = asked.size;
  if (size == 0) return true;  // nothing to distribute
  // The model's mistakes are known, so that you can check every accuracy by hand.
  const std::size_t mistakes = std::clamp<std::size_t>(size / 4, 1, 2);
  const std::size_t first_wrong = size - mistakes;
  const double truth = static_cast<double>(first_wrong) / static_cast<double>(size);
  program.console.line(
      "accuracy on unshuffled samples of a model that misclassifies the last {} (truth: {})",
      mistakes, percent(truth));

  Table table({"policy", "taken", "per rank", "once", "repeated", "never", "accuracy"});
  double weighted = 0, mean_of_means = 0;
  const auto add = [&](const char* policy, const std::vector<std::size_t>& mine) {
    const Coverage seen = count_coverage(comm, size, mine);
    const auto right = static_cast<double>(
        std::ranges::count_if(mine, [&](std::size_t i) { return i < first_wrong; }));
    weighted = mean_over_samples(comm, right, mine.size());
    mean_of_means = mean_over_samples(comm, right / static_cast<double>(mine.size()), 1);
    table.add({policy, std::to_string(seen.taken), per_rank(seen), std::to_string(seen.once),
               std::to_string(seen.again), std::to_string(seen.never),
               seen.taken == 0 ? "-" : percent(weighted)});
    return seen;
  };
  // An evaluation takes the samples unshuffled, as is usual in PyTorch.
  const auto sampled = [&](bool drop_last) {
    return DistributedSampler(size, comm.size(), comm.rank(),
                              {.shuffle = false, .drop_last = drop_last})
        .indices();
  };
  const Coverage pad = add("pad", sampled(false));
  const Coverage drop = add("drop", sampled(true));
  const Coverage exact = add("exact", exact_shard(size, comm.size(), comm.rank()));
  table.print(program.console);
  if (exact.fewest > 0) {  // a rank without samples has no mean
    program.console.line(
        "on exact shards, the mean of the ranks' means is {}, "
        "or {} if weighted by their counts",
        percent(mean_of_means), percent(weighted));
  }
  // The accuracies must agree to the last bit, because sums of whole numbers are exact.
  return comm.all_agree(pad.even && pad.never == 0 && drop.even && drop.again == 0 &&
                        exact.once == size && weighted == truth);
}

}  // namespace dist
