// Look at: how one all-reduce with max finds out whether all hashes are equal.
#include "05_ddp_training/advanced/guards/replica_check.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/join.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dist {
namespace {

// Called on all ranks, each with its own hash. Returns the ranks that disagree with the
// majority, or all ranks if no hash has a majority.
std::vector<int> dissenters(const Communicator& comm, std::uint64_t hash) {
  // Each rank fills in its own element and leaves zeros elsewhere, so the maximum is the
  // complete list.
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm.size()), 0);
  hashes[static_cast<std::size_t>(comm.rank())] = hash;
  all_reduce<std::uint64_t>(comm, hashes, ReduceOp::max,
                            AllReduceAlgorithm::recursive_doubling);
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto equal = std::ranges::count(hashes, hashes[static_cast<std::size_t>(rank)]);
    if (2 * equal <= comm.size()) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream) {
  // The hashes are equal if and only if the largest is also the smallest. The smallest is the
  // complement of the largest complement, so one all-reduce with max finds both.
  std::vector<std::uint64_t> hashes;
  for (const Parameter& parameter : parameters) {
    const std::uint64_t hash =
        read_on_host(stream, parameter.value,
                     [](std::span<const float> values) { return fingerprint(values); });
    hashes.push_back(hash);
    hashes.push_back(~hash);
  }
  const std::vector<std::uint64_t> mine = hashes;
  all_reduce<std::uint64_t>(comm, hashes, ReduceOp::max,
                            AllReduceAlgorithm::recursive_doubling);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (hashes[2 * i] == ~hashes[2 * i + 1]) continue;
    const std::vector<int> ranks = dissenters(comm, mine[2 * i]);
    return fmt::format("{} of rank{} {}", parameters[i].name, ranks.size() == 1 ? "" : "s",
                       join(ranks, ", "));
  }
  return "";
}

}  // namespace dist
