// What this file adds: the smallest amount of data that a rank must send in a step, whatever
// the all-reduce algorithm.
#pragma once

#include "05_ddp_training/model/mlp.hpp"

#include <span>

namespace dist {

// The minimum number of bytes sent per rank, on average: 2 (N - 1) / N times the gradients'
// bytes, where N is `ranks` (Patarasuk and Yuan, 2009).
inline double least_bytes_per_rank(std::span<const Parameter> parameters, int ranks) {
  double bytes = 0;
  for (const Parameter& parameter : parameters) {
    bytes += static_cast<double>(parameter.value.size_bytes());
  }
  return 2.0 * (ranks - 1) / ranks * bytes;
}

}  // namespace dist
