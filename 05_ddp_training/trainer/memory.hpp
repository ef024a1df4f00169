// What this file adds: what a rank's memory holds. In data parallelism, every rank holds a
// whole model, its gradients and its optimizer state, whatever the number of ranks.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include <cstddef>
#include <string>

namespace dist {

// Resident bytes, as the kernel counts them: pages that are in memory, not those that are only
// reserved. Zero if /proc/self/status does not exist.
struct MemoryUse {
  std::size_t now = 0;
  std::size_t peak = 0;  // the most at any one time
};
// Counts only 1 / `ranks` of the memory that the `ranks` ranks of this host share: each has
// made one part, but the kernel counts a page for each process that has touched it.
MemoryUse memory_use(int ranks);
// Resets the peak, if the kernel permits it, so that it covers only the time from this call on.
void restart_peak();

struct TrainingMemory {
  // Counted: the bytes of the tensors.
  std::size_t parameters = 0, gradients = 0, optimizer_state = 0, activations = 0;
  std::size_t buckets = 0;  // with --shard: room for the whole buckets that are in use
  std::size_t copies = 0;   // with --precision bf16: the rounded operands of the products
  // Measured (memory_use): the peak after the first step, and the memory in use before the
  // model was made (the program, its libraries, MPI and the data).
  std::size_t peak = 0, before = 0;

  std::size_t counted() const {
    return parameters + gradients + optimizer_state + activations + buckets + copies;
  }
  std::string text(const std::string& device) const;
};
// The counted part of this rank's memory.
TrainingMemory count_memory(const Module& model, const Optimizer& optimizer,
                            const DataParallel::Kept& kept);

}  // namespace dist
