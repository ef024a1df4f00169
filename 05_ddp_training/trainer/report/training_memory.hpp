// What this file adds: where a rank's memory goes. In data parallelism, every rank holds a
// whole model, its gradients and its optimizer state, whatever the number of ranks.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/sharding/shard.hpp"
#include "common/console.hpp"

#include <cstddef>
#include <string>

namespace dist {

struct TrainingMemory {
  // Counted: the bytes of the tensors.
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t optimizer_state = 0;
  std::size_t activations = 0;
  std::size_t buckets = 0;  // with --shard: room for the whole buckets that are in use
  std::size_t copies = 0;   // with --precision bf16: the rounded factors of the products
  // Measured (memory_use): the peak after the first step, and the memory in use before the
  // model was made (the program, its libraries, MPI and the data). 0 if they cannot be
  // measured.
  std::size_t peak = 0;
  std::size_t before = 0;

  std::size_t counted() const {
    return parameters + gradients + optimizer_state + activations + buckets + copies;
  }
};

// The counted part of this rank's memory. It is the same on all ranks, or nearly so if each
// holds a part (`shard`).
TrainingMemory count_memory(const Mlp& model, const Optimizer& optimizer,
                            const Shard* shard = nullptr);

// One line for the reader. Tensors on a GPU use no host memory.
std::string describe(const TrainingMemory& memory, const std::string& device);
Json json_of(const TrainingMemory& memory);

}  // namespace dist
