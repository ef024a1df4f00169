// Lesson 4: every rank finds its own samples, and together they cover the data set.
//
//   mpirun -np 4 build/bin/distributed_sampler                     14 samples on 4 ranks
//   mpirun -np 4 build/bin/distributed_sampler --size 10 --drop-last
//   build/bin/distributed_sampler --size 60000 --num-replicas 8 --rank 5 --json
//
// Read distributed_sampler.cpp first, then data_loader.hpp.
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace dist;

struct Options {
  CommonOptions common;
  SamplerOptions sampler;
  std::size_t size = 0;  // 0: chosen by the number of ranks
  int num_replicas = 1;
  int rank = 0;
  std::uint64_t epoch = 0;
  std::size_t batch_size = 2;
  bool picture = false;
};

Json row_of(const Options& options, int rank, const DistributedSampler& sampler) {
  return {{"rank", rank},
          {"num_replicas", options.num_replicas},
          {"epoch", options.epoch},
          {"num_samples", sampler.num_samples()},
          {"total_size", sampler.total_size()},
          {"indices", sampler.indices()}};
}

// "rank 0   [3 11] [7 0]": the indices, batch by batch.
std::string line_of(const Options& options, int rank, const std::vector<std::size_t>& indices) {
  constexpr std::size_t kMostShown = 16;
  std::string text = fmt::format("  rank {}  ", rank);
  const std::size_t shown = std::min(indices.size(), kMostShown);
  for (std::size_t begin = 0; begin < shown; begin += options.batch_size) {
    const std::size_t end = std::min(shown, begin + options.batch_size);
    const auto at = [&](std::size_t i) {
      return indices.begin() + static_cast<std::ptrdiff_t>(i);
    };
    text += fmt::format(" [{}]", fmt::join(at(begin), at(end), " "));
  }
  if (indices.size() > shown) text += fmt::format(" ... {} in all", indices.size());
  return text;
}

// The proof that the shards cover the data set: every rank marks its samples in a table of
// zeros, lesson 3 adds the tables up, and every sample must have been taken as often as the
// rule says.
bool prove_partition(const Options& options, const Console& console, const Communicator& comm,
                     const DistributedSampler& sampler) {
  std::vector<std::int32_t> taken(options.size, 0);
  for (const std::size_t index : sampler.indices()) ++taken[index];
  all_reduce<std::int32_t>(comm, taken, ReduceOp::sum);

  const auto times = [&](std::int32_t n) {
    return static_cast<std::size_t>(std::count(taken.begin(), taken.end(), n));
  };
  const std::size_t never = times(0);
  const std::size_t once = times(1);
  const std::size_t more = taken.size() - never - once;
  console.line(fmt::format("taken over all ranks: {} samples once, {} more than once, {} never",
                           once, more, never));
  // total_size seats for `size` samples: each is taken floor or ceil of their ratio times.
  const std::size_t total = sampler.total_size();
  const std::size_t fewest = options.size == 0 ? 0 : total / options.size;
  const std::size_t one_more = options.size == 0 ? 0 : total % options.size;
  std::size_t wrong = 0;
  for (const std::int32_t n : taken) {
    const auto count = static_cast<std::size_t>(n);
    if (count != fewest && !(one_more > 0 && count == fewest + 1)) ++wrong;
  }
  const bool right_total = times(static_cast<std::int32_t>(fewest) + 1) == one_more;
  return comm.all_agree(wrong == 0 && right_total);
}

// The first sample of this rank, as the loader delivers it, in characters.
void show_picture(const Options& options, const Console& console,
                  const std::vector<std::size_t>& indices) {
  const DigitFiles files = render_digits(std::max<std::size_t>(options.size, 1), 0);
  const IdxDataset digits(parse_idx_images(files.images, "digits"),
                          parse_idx_labels(files.labels, "digits"), "digits");
  const Stream stream(Device{});
  DataLoader loader(digits, 1, false, stream);
  for (const Batch& batch : loader.over(indices)) {
    console.line(fmt::format("the first sample of rank 0, number {}, is a {}:", indices[0],
                             batch.targets[0]));
    constexpr std::size_t kSide = 28;
    const std::span<const float> pixels = batch.inputs.span();
    for (std::size_t row = 0; row < kSide; row += 2) {  // characters are twice as high as wide
      std::string text = "  ";
      for (std::size_t column = 0; column < kSide; ++column) {
        const float ink =
            (pixels[row * kSide + column] + pixels[(row + 1) * kSide + column]) / 2;
        text += " .:*#"[std::min(4, static_cast<int>(ink * 5))];
      }
      console.line(text);
    }
    return;
  }
}

// One rank of a world that is not there.
int answer_for_one_rank(const Options& options, const Communicator& comm) {
  const Console console(options.common.json, comm.rank() == 0);
  DistributedSampler sampler(options.size, options.num_replicas, options.rank, options.sampler);
  sampler.set_epoch(options.epoch);
  const std::vector<std::size_t> indices = sampler.indices();
  console.line(line_of(options, options.rank, indices));
  console.row(row_of(options, options.rank, sampler));
  const bool correct = indices.size() == sampler.num_samples() &&
                       std::ranges::all_of(indices, [&](auto i) { return i < options.size; });
  return correct ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  Options options;
  options.num_replicas = comm.size();
  options.rank = comm.rank();
  // Four samples for every rank, less two: enough to see padding.
  options.size = static_cast<std::size_t>(std::max(1, 4 * comm.size() - 2));
  CommandLine command_line("distributed_sampler",
                           "Lesson 4: every rank finds its own samples.");
  command_line.number<std::size_t>("--size", options.size, 0, 100'000'000,
                                   "samples in the data set");
  command_line.flag("--shuffle,!--no-shuffle", options.sampler.shuffle,
                    "random order (default)");
  command_line.flag("--drop-last", options.sampler.drop_last, "drop what does not divide");
  command_line.number<std::uint64_t>("--epoch", options.epoch, 0, 1U << 31,
                                     "set_epoch's argument");
  command_line.number<std::size_t>("--batch-size", options.batch_size, 1, 1U << 20, "per rank");
  command_line.number("--num-replicas", options.num_replicas, 1, 1 << 20,
                      "with --rank: answer for a world that is not here");
  command_line.number("--rank", options.rank, 0, 1 << 20, "see --num-replicas");
  command_line.flag("--picture", options.picture,
                    "draw the first sample, if these were the digits");
  options.common.declare(command_line);
  command_line.check([&] {
    if (command_line.given("--rank") != command_line.given("--num-replicas")) {
      throw Error("--rank: goes together with --num-replicas");
    }
    if (options.rank >= options.num_replicas) {
      throw Error(fmt::format("--rank: there is no rank {} among {}", options.rank,
                              options.num_replicas));
    }
    if (options.picture && options.size > 60'000) {
      throw Error("--picture: draws at most 60000 digits to choose from");
    }
    if (options.common.device == "cuda") choose_device("cuda", comm.local_rank());
    options.sampler.seed = options.common.seed;
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;
  if (command_line.given("--rank")) return answer_for_one_rank(options, comm);

  const Console console(options.common.json, comm.rank() == 0);
  DistributedSampler sampler(options.size, comm.size(), comm.rank(), options.sampler);
  sampler.set_epoch(options.epoch);
  const std::vector<std::size_t> indices = sampler.indices();

  console.line(
      fmt::format("{} samples on {} rank{}, epoch {}: {} for each, {} in all; batches of {}",
                  options.size, comm.size(), comm.size() == 1 ? "" : "s", options.epoch,
                  sampler.num_samples(), sampler.total_size(), options.batch_size));
  lines_in_rank_order(console, comm, line_of(options, comm.rank(), indices));
  rows_in_rank_order(console, comm, row_of(options, comm.rank(), sampler));
  if (options.picture && console.speaks() && !indices.empty()) {
    show_picture(options, console, indices);
  }
  const bool correct = prove_partition(options, console, comm, sampler);
  return console.verdict(correct, "every sample was taken as often as it must be",
                         "the shards do not cover the data set");
}
