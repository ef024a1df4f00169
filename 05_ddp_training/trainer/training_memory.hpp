// What this file adds: where a rank's memory goes. Every rank of data parallelism holds a whole
// model, its gradients and its optimizer state, however many ranks there are.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/model/optimizer.hpp"
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
  // Measured (memory_use): what the process had at most after the first step, and what before
  // there was a model, which is the program with its libraries, MPI, and the data set. 0 where
  // it cannot be measured.
  std::size_t peak = 0;
  std::size_t before = 0;

  std::size_t counted() const { return parameters + gradients + optimizer_state + activations; }
};

// The counted part, of one rank. The same on all of them.
TrainingMemory count_memory(const Mlp& model, const Optimizer& optimizer);

// One line for the reader. Tensors on a GPU take no memory of the host.
std::string describe(const TrainingMemory& memory, const std::string& device);
Json json_of(const TrainingMemory& memory);

}  // namespace dist
