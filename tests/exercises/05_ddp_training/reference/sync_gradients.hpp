// The reference: lesson 3's all-reduce, with a copy before and after it. The lesson needs no
// copies, because its gradients are views of the message (see Reducer).
#pragma once

#include "03_all_reduce/all_reduce.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace dist::exercise {

inline void sync_gradients(const Communicator& comm,
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

}  // namespace dist::exercise
