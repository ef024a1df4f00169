// Look at: how one all-reduce with max finds out whether all hashes are equal.
#include "05_ddp_training/data_parallel/replica_check.hpp"

#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "common/join.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dist {
namespace {

using Hashes = std::vector<std::uint64_t>;

// Called on all ranks, each with its own hash. Returns the ranks that disagree with the
// majority, or all ranks if no hash has a majority.
std::vector<int> dissenters(const Communicator& comm, std::uint64_t hash) {
  // Each rank fills in its own element and leaves zeros elsewhere, so the maximum is the
  // complete list.
  Hashes hashes(static_cast<std::size_t>(comm.size()), 0);
  hashes[static_cast<std::size_t>(comm.rank())] = hash;
  all_reduce<std::uint64_t>(comm, hashes, ReduceOp::max);
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto equal = std::ranges::count(hashes, hashes[static_cast<std::size_t>(rank)]);
    if (2 * equal <= comm.size()) ranks.push_back(rank);
  }
  return ranks;
}

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
  Hashes hashes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Fingerprint hash;
    hash.add(parts + ends[i], (ends[i + 1] - ends[i]) * sizeof(std::uint64_t));
    hashes.push_back(hash.value());
  }
  return hashes;
}

}  // namespace

std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream) {
  // The hashes are equal if and only if the largest is also the smallest. The smallest is the
  // complement of the largest complement, so one all-reduce with max finds both.
  const Hashes mine = hashes_of(parameters, stream);
  Hashes largest = mine;
  for (const std::uint64_t hash : mine) largest.push_back(~hash);
  all_reduce<std::uint64_t>(comm, largest, ReduceOp::max);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (largest[i] == ~largest[mine.size() + i]) continue;
    const std::vector<int> ranks = dissenters(comm, mine[i]);
    return fmt::format("{} of rank{} {}", parameters[i].name, ranks.size() == 1 ? "" : "s",
                       join(ranks, ", "));
  }
  return "";
}

}  // namespace dist
