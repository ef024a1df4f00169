// What this file adds: the smallest amount of data that a rank must send in a step, whatever
// the all-reduce algorithm.
#pragma once

#include "05_ddp_training/sharding/shard.hpp"

#include <span>

namespace dist {

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
