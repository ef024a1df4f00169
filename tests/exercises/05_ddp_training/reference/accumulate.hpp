// The reference: sums the gradients in one flat message and averages it once.
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

inline void accumulate(const Communicator& comm, std::size_t parts,
                       const std::vector<std::span<float>>& gradients,
                       const std::function<void(std::size_t k)>& backward) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> sums(total);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    std::size_t next = 0;
    for (const auto& gradient : gradients) {
      for (const float value : gradient) sums[next++] += value / static_cast<float>(parts);
    }
  }
  all_reduce<float>(comm, sums, ReduceOp::avg, AllReduceAlgorithm::ring);
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value = sums[next++];
  }
}

}  // namespace dist::exercise
