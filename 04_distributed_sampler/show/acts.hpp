// What the program shows, act by act. Each act is called on all ranks, prints through the
// console, and returns on all ranks whether everything it showed was right.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/program.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

struct SamplingOptions {
  std::size_t size = 0;
  int num_replicas = 1;
  int rank = 0;
  SamplerOptions sampler;
  std::uint64_t epoch = 0;
  std::size_t batch_size = 2;

  // Adds the flags and the check that they fit each other.
  void declare(CommandLine& flags);
};

// Which samples each rank takes, batch by batch, and the proof that they cover the data set.
bool show_shards(const SamplingOptions& options, const Console& console,
                 const Communicator& comm);

// The same for one rank of a world that is not there. One process, no message.
bool show_one_shard(const SamplingOptions& options, const Console& console);

// What does not divide: padded, dropped, or shared out exactly; and the accuracy of one and the
// same model that each of the three would report.
bool show_policies(const SamplingOptions& options, const Console& console,
                   const Communicator& comm);

// How long a step waits for a batch of digits, with and without reading ahead, from memory and
// from a mapped file; the slowest rank's.
bool show_loader(std::size_t batch_size, const Console& console, const Communicator& comm);

// This rank's first sample as the loader delivers it, in characters. One rank.
void show_picture(const SamplingOptions& options, const Console& console);

}  // namespace dist
