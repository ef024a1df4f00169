// Solutions to two of lesson 5's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

// == sync_gradients/reference
// Lesson 3's all-reduce, with a copy before and after it. The lesson needs no
// copies, because its gradients are views of the message (see Reducer).
inline void sync_gradients_reference(const Communicator& comm,
                                     const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& from : gradients) message.insert(message.end(), from.begin(), from.end());
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  auto next = message.cbegin();
  for (const auto& to : gradients) {
    const auto end = next + static_cast<std::ptrdiff_t>(to.size());
    std::copy(next, end, to.begin());
    next = end;
  }
}

// == accumulate/reference
// Sums the gradients in one flat message and averages it once.
inline void accumulate_reference(const Communicator& comm, std::size_t parts,
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
