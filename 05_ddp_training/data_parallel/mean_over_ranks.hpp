// What this file adds: the mean of a number, such as the loss, over all ranks.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <array>

namespace dist {

// Called on all ranks; all get the same result.
inline double mean_over_ranks(const Communicator& comm, double number) {
  std::array mean{number};
  all_reduce<double>(comm, mean, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
  return mean[0];
}

}  // namespace dist
