// Lesson 4: each rank picks its own samples, and together the ranks cover the data set.
//
//   mpirun -np 4 build/bin/distributed_sampler                     10 samples on 4 ranks
//   mpirun -np 4 build/bin/distributed_sampler --size 10 --drop-last
//   build/bin/distributed_sampler --size 60000 --num-replicas 8 --rank 5 --json
//
// It also shows what happens to a measured accuracy if 4 does not divide 10. Read
// distributed_sampler.cpp next.
#include "04_distributed_sampler/coverage.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/show.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <cstddef>
#include <vector>

using namespace dist;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Program program("distributed_sampler", "Lesson 4: each rank picks its own samples.");
  Sampling asked(program);  // --size, --num-replicas, --rank, --epoch, ... and their defaults
  program.declare_common();
  if (const auto exit = program.start(argc, argv)) return *exit;
  const Communicator& comm = program.comm;

  // Every rank computes its own samples, without a message. The same seed and epoch give all
  // ranks the same order, of which rank r takes entries r, r + size, r + 2 size, ...
  DistributedSampler sampler(asked.size, asked.num_replicas, asked.rank, asked.options);
  sampler.set_epoch(asked.epoch);
  const std::vector<std::size_t> indices = sampler.indices();
  show_shard(program, asked, sampler);
  if (asked.one_rank) return indices.size() == sampler.num_samples() ? 0 : 1;

  // Together, the ranks took every sample equally often, give or take one. To know that, they
  // add up their counts with lesson 3's all-reduce.
  const Coverage coverage = count_coverage(comm, asked.size, indices);
  program.console.line("over all ranks: {} samples taken once, {} more than once, {} never",
                       coverage.once, coverage.again, coverage.never);
  bool correct = coverage.even && coverage.taken == sampler.total_size() &&
                 coverage.fewest == coverage.most;
  if (!program.console.json()) correct &= show_policies(program, asked);
  return program.console.verdict(comm, correct,
                                 "every sample was taken as often as it should be",
                                 "the shards do not cover the data set");
}
