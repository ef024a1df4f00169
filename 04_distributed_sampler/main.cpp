// Lesson 4: every rank finds its own samples, and together they cover the data set.
//
//   mpirun -np 4 build/bin/distributed_sampler                     14 samples on 4 ranks
//   mpirun -np 4 build/bin/distributed_sampler --size 10 --drop-last
//   mpirun -np 2 build/bin/distributed_sampler --act loader        what a batch costs
//   build/bin/distributed_sampler --size 60000 --num-replicas 8 --rank 5 --json
//
// Read distributed_sampler.cpp first, then policies_act.cpp, data_loader.hpp,
// prefetch_loader.cpp.
#include "04_distributed_sampler/break_it/experiments.hpp"
#include "04_distributed_sampler/show/acts.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/device.hpp"
#include "common/mpi_environment.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace {

using namespace dist;

struct Options {
  CommonOptions common;
  SamplingOptions sampling;
  std::string act = "shards";
  bool picture = false;

  bool plays(const std::string& name) const { return act == name || act == "all"; }
};

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  Options options;
  SamplingOptions& sampling = options.sampling;
  sampling.num_replicas = comm.size();
  sampling.rank = comm.rank();
  // Four samples for every rank, less two: enough to see padding.
  sampling.size = static_cast<std::size_t>(std::max(1, 4 * comm.size() - 2));
  CommandLine command_line("distributed_sampler",
                           "Lesson 4: every rank finds its own samples.");
  command_line.choice("--act", options.act, {"shards", "policies", "loader", "all"},
                      "what to show; not given: shards, and below them, as text, policies");
  command_line.number<std::size_t>("--size", sampling.size, 0, 100'000'000,
                                   "samples in the data set");
  command_line.flag("--shuffle,!--no-shuffle", sampling.sampler.shuffle,
                    "random order (default)");
  command_line.flag("--drop-last", sampling.sampler.drop_last, "drop what does not divide");
  command_line.number<std::uint64_t>("--epoch", sampling.epoch, 0, 1U << 31,
                                     "set_epoch's argument");
  command_line.number<std::size_t>("--batch-size", sampling.batch_size, 1, 1U << 20,
                                   "per rank; act loader: 64 if not given");
  command_line.number("--num-replicas", sampling.num_replicas, 1, 1 << 20,
                      "with --rank: answer for a world that is not here");
  command_line.number("--rank", sampling.rank, 0, 1 << 20, "see --num-replicas");
  command_line.flag("--picture", options.picture,
                    "draw the first sample, if these were the digits");
  options.common.declare(command_line);
  const bool& json = options.common.json;
  BreakOption broken(kSamplerExperiments);
  broken.declare(command_line, comm);
  command_line.check([&] {
    if (command_line.given("--rank") != command_line.given("--num-replicas")) {
      throw Error("--rank: goes together with --num-replicas");
    }
    if (sampling.rank >= sampling.num_replicas) {
      throw Error(fmt::format("--rank: there is no rank {} among {}", sampling.rank,
                              sampling.num_replicas));
    }
    if (command_line.given("--rank") && options.act != "shards") {
      throw Error("--rank: a world that is not here shows its shards only");
    }
    if (options.picture && sampling.size > 60'000) {
      throw Error("--picture: draws at most 60000 digits to choose from");
    }
    if (options.common.device == "cuda") choose_device("cuda", comm.local_rank());
    sampling.sampler.seed = options.common.seed;
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(json, comm.rank() == 0);
  const Stream stream(Device{}, options.common.threads);  // of experiments; samples stay here
  if (broken.wanted()) return broken.run({console, comm, stream, options.common.seed});
  if (command_line.given("--rank")) return show_one_shard(sampling, console) ? 0 : 1;
  bool correct = true;
  if (options.plays("shards")) correct = show_shards(sampling, console, comm) && correct;
  if (options.picture && console.speaks()) show_picture(sampling, console);
  const bool below_shards = !command_line.given("--act") && !options.picture && !json;
  if (options.plays("policies") || below_shards) {
    correct = show_policies(sampling, console, comm) && correct;
  }
  if (options.plays("loader")) {
    const std::size_t batch_size =
        command_line.given("--batch-size") ? sampling.batch_size : 64;
    correct = show_loader(batch_size, console, comm) && correct;
  }
  return console.verdict(correct, "every sample was taken as often as it must be",
                         "the shards do not cover the data set");
}
