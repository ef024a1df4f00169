// Look at: first_difference. Every rank reads the same hashes, so all find the same difference.
#include "05_ddp_training/data_parallel/replica_check.hpp"

#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "common/hash.hpp"
#include "common/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dist {
namespace {

using Hashes = std::vector<std::uint64_t>;

// A hash of each parameter. A GPU hashes its own memory and writes the results to the host's,
// so that the host waits once and copies nothing.
Hashes hashes_of(std::span<const Parameter> parameters, const Stream& stream) {
  constexpr std::size_t kPerThread = 64;
  std::vector<std::size_t> ends{0};
  for (const Parameter& parameter : parameters) {
    ends.push_back(ends.back() + (parameter.value.numel() + kPerThread - 1) / kPerThread);
  }
  const bool on_cpu = stream.device().is_cpu();
  Hashes own(on_cpu ? ends.back() : 0);
  const std::size_t bytes = ends.back() * sizeof(std::uint64_t);
  auto* const parts = on_cpu ? own.data() : static_cast<std::uint64_t*>(stream.staging(bytes));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& value = parameters[i].value;
    hash_bits(stream, value.numel(), value.data(), ends[i + 1] - ends[i], parts + ends[i]);
  }
  stream.synchronize();
  Hashes hashes(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Hash hash;
    hash.add(parts + ends[i], (ends[i + 1] - ends[i]) * sizeof(std::uint64_t));
    hashes[i] = hash.value();
  }
  return hashes;
}

}  // namespace

std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream) {
  const Hashes own = hashes_of(parameters, stream);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Hashes all = comm.all_gather(own[p]);
    if (std::ranges::count(all, all[0]) == comm.size()) continue;
    std::vector<std::size_t> minority;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (2 * std::ranges::count(all, all[rank]) <= comm.size()) minority.push_back(rank);
    }
    return fmt::format("{} of rank{} {}", parameters[p].name, minority.size() == 1 ? "" : "s",
                       join(minority, ", "));
  }
  return "";
}

std::string wrong_replicas(const Communicator& comm, std::span<const Parameter> parameters,
                           const Stream& stream) {
  const std::string difference = first_difference(comm, parameters, stream);
  if (!difference.empty()) return "the replicas differ, first in " + difference;
  const auto diverged = first_not_finite(parameters, stream);  // the same on all ranks
  if (!diverged) return "";
  return fmt::format("the parameters diverged: {} has a number that is not finite",
                     parameters[*diverged].name);
}

}  // namespace dist
