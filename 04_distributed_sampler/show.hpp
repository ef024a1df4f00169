// What the lesson's program shows around the sampler: its flags, each rank's samples, and what
// each policy for the remainder does to an accuracy.
#pragma once

#include "04_distributed_sampler/distributed_sampler.hpp"
#include "common/program.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// The data set, the rank whose samples are asked for, and the sampler's options.
struct Sampling {
  // Declares the flags, and the checks that they agree with each other.
  explicit Sampling(Program& program);

  std::size_t size;
  int num_replicas, rank;
  SamplerOptions options;
  std::uint64_t epoch = 0;
  std::size_t batch_size = 2;
  bool one_rank = false;  // --rank: of a world that need not be running
};

// Prints the rank's samples, batch by batch, or with --json its row. Unless `one_rank`, called
// on all ranks, which print in rank order.
void show_shard(const Program& program, const Sampling& asked,
                const DistributedSampler& sampler);

// Called on all ranks. Shows the three policies for the remainder (pad, drop, exact) and the
// accuracy that each of them reports for the same model. Returns, on all ranks, whether each
// policy took the samples that it should.
bool show_policies(const Program& program, const Sampling& asked);

}  // namespace dist
