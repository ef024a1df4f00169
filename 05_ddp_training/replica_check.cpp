// Look at: how one all-reduce with max finds out whether all hashes are equal.
#include "05_ddp_training/replica_check.hpp"

#include "03_all_reduce/all_reduce.hpp"
#include "common/hash.hpp"

#include <cstdint>
#include <vector>

namespace dist {

std::string first_difference(const Communicator& comm, std::span<const Parameter> parameters,
                             const Stream& stream) {
  // Equal on all ranks exactly if the largest hash is also the smallest, and the smallest is
  // the complement of the largest complement: one all-reduce with max finds both.
  std::vector<std::uint64_t> hashes;
  for (const Parameter& parameter : parameters) {
    const std::uint64_t hash = fingerprint(to_host(stream, parameter.value));
    hashes.push_back(hash);
    hashes.push_back(~hash);
  }
  all_reduce<std::uint64_t>(comm, hashes, ReduceOp::max);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (hashes[2 * i] != ~hashes[2 * i + 1]) return parameters[i].name;
  }
  return "";
}

}  // namespace dist
