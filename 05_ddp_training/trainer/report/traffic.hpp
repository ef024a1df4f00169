// What this file adds: how much a rank sends in a step, counted, and the smallest amount that
// it must send, whatever the all-reduce algorithm.
#pragma once

#include "05_ddp_training/sharding/shard.hpp"
#include "common/watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace dist {

// Called on all ranks. Runs `body`, a part of a step that waits for its own messages, and
// returns the most bytes of buckets that any rank sent. Nullopt if none were counted: shared
// memory, MPI's collectives or NCCL carried the buckets.
inline std::optional<std::uint64_t> bytes_sent_per_rank(const Communicator& comm,
                                                        const std::function<void()>& body) {
  const auto traffic = count_traffic(comm, body, "bucket ");
  if (!traffic || traffic->messages_per_rank == 0) return std::nullopt;
  return traffic->bytes_per_rank;
}

// The minimum number of bytes sent per rank, on average: 2 (N - 1) / N times the gradients'
// bytes, where N is `ranks` (Patarasuk and Yuan, 2009). If the parameters are divided, they are
// gathered twice, and the minimum is 3 (N - 1) / N.
inline double least_bytes_per_rank(std::span<const Parameter> parameters, int ranks,
                                   const Shard* shard) {
  double bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += static_cast<double>(parameter.value.size_bytes());
  }
  const bool divided = shard != nullptr && shard->level() == ShardLevel::parameters;
  return (divided ? 3.0 : 2.0) * (ranks - 1) / ranks * bytes;
}

}  // namespace dist
