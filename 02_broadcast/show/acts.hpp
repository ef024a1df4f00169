// The acts of the program broadcast.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/show/sweep_options.hpp"
#include "common/communicator.hpp"
#include "common/console.hpp"
#include "common/nccl_communicator.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dist {

// What all acts share.
struct Context {
  const Communicator& comm;
  const Console& console;
  const Stream& stream;
  int root;
  std::uint64_t seed;
  const SweepOptions& sweep;
  const std::optional<LinkCost>&
      measured;                           // by lesson 1 on this machine; the same on all ranks
  std::optional<NcclCommunicator>& nccl;  // made if one of the algorithms is nccl
};

// Each of these is called on all ranks.

// Root's `tensor` to all, by the algorithm of this name (one of kBroadcastAlgorithms, or nccl).
void run_broadcast(const Context& context, const std::string& algorithm, const Tensor& tensor);
// How many elements, over all ranks, are not root's tracer numbers; the same on all ranks.
std::size_t wrong_elements(const Context& context, const Tensor& tensor);

// Acts: true on all ranks if every element of all ranks was right.
bool show_four_numbers(const Context& context, const std::string& algorithm);
bool show_times(const Context& context, const std::vector<std::string>& algorithms);
bool show_replicas(const Context& context, const std::string& algorithm);

}  // namespace dist
