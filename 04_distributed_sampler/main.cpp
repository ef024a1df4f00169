// Lesson 4: each rank picks its own samples, and together the ranks cover the data set.
//
//   mpirun -np 4 build/bin/distributed_sampler                     14 samples on 4 ranks
//   mpirun -np 4 build/bin/distributed_sampler --size 10 --drop-last
//   build/bin/distributed_sampler --size 60000 --num-replicas 8 --rank 5 --json
//
// Read distributed_sampler.cpp first, then policies_act.cpp and data_loader.hpp.
#include "04_distributed_sampler/show/acts.hpp"
#include "common/check.hpp"
#include "common/mpi_environment.hpp"

#include <algorithm>
#include <string>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("distributed_sampler", "Lesson 4: each rank picks its own samples.");
  const Communicator& comm = program.comm;
  CommandLine& flags = program.flags;

  SamplingOptions sampling;
  sampling.num_replicas = comm.size();
  sampling.rank = comm.rank();
  // The default is two samples fewer than four per rank, so that the run shows padding.
  sampling.size = static_cast<std::size_t>(std::max(1, 4 * comm.size() - 2));
  std::string act = "shards";
  bool picture = false;
  flags.choice("--act", act, {"shards", "policies", "all"},
               "what to show; without this flag, text output shows shards, then policies");
  sampling.declare(flags);
  flags.flag("--picture", picture, "draw rank 0's first sample, using the digits as data");
  program.declare_common();
  flags.check([&] {
    if (flags.given("--rank") && act != "shards") {
      throw Error("--rank: works only with --act shards");
    }
    if (picture && sampling.size > 60'000) {
      throw Error("--picture: --size must be at most 60000");
    }
    sampling.sampler.seed = program.common.seed;
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  const Console& console = program.console;
  if (flags.given("--rank")) return show_one_shard(sampling, console) ? 0 : 1;
  const auto plays = [&](const char* name) { return act == name || act == "all"; };
  bool correct = true;
  if (plays("shards")) correct &= show_shards(sampling, console, comm);
  if (picture && console.speaks()) show_picture(sampling, console);
  const bool below_shards = !flags.given("--act") && !picture && !program.common.json;
  if (plays("policies") || below_shards) correct &= show_policies(sampling, console, comm);
  return console.verdict(correct, "every sample was taken as often as it should be",
                         "the shards do not cover the data set");
}
