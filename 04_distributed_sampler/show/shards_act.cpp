#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/show/acts.hpp"
#include "04_distributed_sampler/show/coverage.hpp"
#include "common/check.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace dist {
namespace {

Json row_of(const SamplingOptions& options, const DistributedSampler& sampler) {
  return {{"rank", options.rank},
          {"num_replicas", options.num_replicas},
          {"epoch", options.epoch},
          {"num_samples", sampler.num_samples()},
          {"total_size", sampler.total_size()},
          {"indices", sampler.indices()}};
}

// "rank 0   [3 11] [7 0]": the indices, batch by batch.
std::string line_of(const SamplingOptions& options, const std::vector<std::size_t>& indices) {
  constexpr std::size_t kMostShown = 16;
  std::string text = fmt::format("  rank {}  ", options.rank);
  const std::size_t shown = std::min(indices.size(), kMostShown);
  for (std::size_t begin = 0; begin < shown; begin += options.batch_size) {
    const std::size_t end = std::min(shown, begin + options.batch_size);
    const auto at = [&](std::size_t i) {
      return indices.begin() + static_cast<std::ptrdiff_t>(i);
    };
    text += fmt::format(" [{}]", join(std::ranges::subrange(at(begin), at(end)), " "));
  }
  if (indices.size() > shown) text += fmt::format(" ... {} in total", indices.size());
  return text;
}

DistributedSampler sampler_of(const SamplingOptions& options) {
  DistributedSampler sampler(options.size, options.num_replicas, options.rank, options.sampler);
  sampler.set_epoch(options.epoch);
  return sampler;
}

}  // namespace

void SamplingOptions::declare(CommandLine& flags) {
  flags.number<std::size_t>("--size", size, 0, 100'000'000, "samples in the data set");
  flags.flag("--shuffle,!--no-shuffle", sampler.shuffle, "random order (default)");
  flags.flag("--drop-last", sampler.drop_last, "drop the remainder instead of padding");
  flags.number<std::uint64_t>("--epoch", epoch, 0, 1U << 31, "epoch to show (set_epoch)");
  flags.number<std::size_t>("--batch-size", batch_size, 1, 1U << 20, "per rank");
  flags.number("--num-replicas", num_replicas, 1, 1 << 20,
               "with --rank: show one rank without launching this many");
  flags.number("--rank", rank, 0, 1 << 20, "see --num-replicas");
  flags.check([this, &flags] {
    if (flags.given("--rank") != flags.given("--num-replicas")) {
      throw Error("--rank: must be given together with --num-replicas");
    }
    if (rank >= num_replicas) {
      throw Error(
          fmt::format("--rank: there is no rank {} in a world of {}", rank, num_replicas));
    }
  });
}

bool show_shards(const SamplingOptions& options, const Console& console,
                 const Communicator& comm) {
  const DistributedSampler sampler = sampler_of(options);
  const std::vector<std::size_t> indices = sampler.indices();
  console.line(
      fmt::format("{} samples on {} rank{}, epoch {}: {} per rank, {} in total; batches of {}",
                  options.size, comm.size(), comm.size() == 1 ? "" : "s", options.epoch,
                  sampler.num_samples(), sampler.total_size(), options.batch_size));
  lines_in_rank_order(console, comm, line_of(options, indices));
  rows_in_rank_order(console, comm, row_of(options, sampler));

  const Coverage coverage = count_coverage(comm, options.size, indices);
  console.line(fmt::format("over all ranks: {} samples taken once, {} more than once, {} never",
                           coverage.once, coverage.again, coverage.never));
  return comm.all_agree(coverage.even && coverage.taken == sampler.total_size() &&
                        coverage.fewest == coverage.most);
}

bool show_one_shard(const SamplingOptions& options, const Console& console) {
  const DistributedSampler sampler = sampler_of(options);
  const std::vector<std::size_t> indices = sampler.indices();
  console.line(line_of(options, indices));
  console.row(row_of(options, sampler));
  return indices.size() == sampler.num_samples() &&
         std::ranges::all_of(indices, [&](auto i) { return i < options.size; });
}

void show_picture(const SamplingOptions& options, const Console& console) {
  const std::vector<std::size_t> indices = sampler_of(options).indices();
  if (indices.empty()) return;
  const IdxDataset digits = digits_dataset(options.size, 0);
  const Stream stream(Device{});
  DataLoader loader(digits, 1, false, stream);
  DataLoader::Range range = loader.over(std::vector{indices[0]});
  const Batch& batch = *range.begin();
  console.line(fmt::format("the first sample of rank 0, number {}, is a {}:", indices[0],
                           batch.targets[0]));
  constexpr std::size_t kSide = 28;
  const std::span<const float> pixels = batch.inputs.span();
  for (std::size_t row = 0; row < kSide; row += 2) {  // a character is twice as high as wide
    std::string text = "  ";
    for (std::size_t column = 0; column < kSide; ++column) {
      const float ink = (pixels[row * kSide + column] + pixels[(row + 1) * kSide + column]) / 2;
      text += " .:*#"[std::min(4, static_cast<int>(ink * 5))];
    }
    console.line(text);
  }
}

}  // namespace dist
