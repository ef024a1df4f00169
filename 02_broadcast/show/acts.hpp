// The acts of the program `broadcast`.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "common/program.hpp"
#include "common/tensor.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

// The settings and connections that all acts share.
struct Broadcasts {
  const Program& program;
  int root;
  const SweepOptions& sweep;
  // Lesson 1's measurement on this machine, the same on all ranks.
  const std::optional<LinkCost>& measured;
  std::optional<NcclCommunicator>& nccl;  // set if one of the algorithms is nccl
};

// All of the functions below are called on all ranks.

// Sends the root's `tensor` to all ranks. `algorithm` is the name of an algorithm (one of
// kBroadcastAlgorithms, or nccl).
void run_broadcast(const Broadcasts& with, const std::string& algorithm, const Tensor& tensor);
// Returns how many elements differ from the root's tracer numbers, summed over all ranks. All
// ranks get the same answer.
std::size_t wrong_elements(const Broadcasts& with, const Tensor& tensor);

// The acts. Each returns true on all ranks if every element on every rank was right.
bool show_four_numbers(const Broadcasts& with, const std::string& algorithm);
bool show_times(const Broadcasts& with, const std::vector<std::string>& algorithms);
bool show_replicas(const Broadcasts& with, const std::string& algorithm);

}  // namespace dist
