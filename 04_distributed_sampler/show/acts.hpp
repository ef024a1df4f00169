// The acts that the program shows. Unless stated otherwise, each act is called on all ranks,
// prints through the console, and returns on all ranks whether everything it showed was right.
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

  // Adds the flags and the check that they agree with each other.
  void declare(CommandLine& flags);
};

// Shows which samples each rank takes, batch by batch, and proves that they cover the data set.
bool show_shards(const SamplingOptions& options, const Console& console,
                 const Communicator& comm);

// Shows one rank's samples in a world that was not launched. Runs in one process and sends no
// messages.
bool show_one_shard(const SamplingOptions& options, const Console& console);

// Shows the three policies for the remainder (pad, drop, exact) and the accuracy that each of
// them reports for the same model.
bool show_policies(const SamplingOptions& options, const Console& console,
                   const Communicator& comm);

// Draws, in text characters, this rank's first sample as the loader delivers it. Called on one
// rank.
void show_picture(const SamplingOptions& options, const Console& console);

}  // namespace dist
