// Right and wrong flat gradient syncs that are not edited copies of the reference.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist::exercise {

// Right, but written differently: keeps an offset, and calls the two halves of the ring.
inline void by_offsets(const Communicator& comm,
                       const std::vector<std::span<float>>& gradients) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> message(total);
  std::size_t offset = 0;
  for (const auto& gradient : gradients) {
    for (const float value : gradient) message[offset++] = value;
  }
  ring_reduce_scatter<float>(comm, message, ReduceOp::avg);
  ring_all_gather<float>(comm, message);
  offset = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value = message[offset++];
  }
}

// Packs the gradients into a table whose rows are all as long as the longest gradient.
inline void padded(const Communicator& comm, const std::vector<std::span<float>>& gradients) {
  std::size_t longest = 0;
  for (const auto& gradient : gradients) longest = std::max(longest, gradient.size());
  std::vector<float> message(longest * gradients.size());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(gradients[k], message.begin() + static_cast<std::ptrdiff_t>(k * longest));
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(std::span(message).subspan(k * longest, gradients[k].size()),
                      gradients[k].begin());
  }
}

}  // namespace dist::exercise
