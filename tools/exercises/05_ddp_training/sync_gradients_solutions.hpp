// Known solutions of the exercise sync_gradients: the reference, and others, right and wrong.
// More are in sync_gradients_changes.toml.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/step_to_predict.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
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

// == fixed-message | large | the message as long as all of them together
// The message has room for 64 Ki elements; what does not fit is not averaged.
inline void sync_gradients_fixed_message(const Communicator& comm,
                                         const std::vector<std::span<float>>& gradients) {
  constexpr std::size_t kRoom = 64 * 1024;
  std::vector<float> message;
  for (const auto& gradient : gradients) {
    const std::size_t count = std::min(gradient.size(), kRoom - message.size());
    message.insert(message.end(), gradient.data(), gradient.data() + count);
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    const std::size_t count = std::min(gradient.size(), kRoom - next);
    std::copy_n(message.data() + next, count, gradient.data());
    next += count;
  }
}

// == copies-a-quarter | shares | multiply by sizeof(float)
// memcpy counts bytes.
inline void sync_gradients_copies_a_quarter(const Communicator& comm,
                                            const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& each : gradients) message.insert(message.end(), each.begin(), each.end());
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  const float* from = message.data();
  for (const auto& each : gradients) {
    std::memcpy(each.data(), from, each.size());
    from += each.size();
  }
}

// == padded-to-n | bytes | do not pad
// Makes the message a multiple of N long.
inline void sync_gradients_padded_to_n(const Communicator& comm,
                                       const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& each : gradients) message.insert(message.end(), each.begin(), each.end());
  const auto ranks = static_cast<std::size_t>(comm.size());
  message.resize((message.size() + ranks - 1) / ranks * ranks);
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  const float* from = message.data();
  for (const auto& each : gradients) {
    std::copy_n(from, each.size(), each.begin());
    from += each.size();
  }
}

// == divides-again | shares | do not divide again
inline void sync_gradients_divides_again(const Communicator& comm,
                                         const std::vector<std::span<float>>& gradients) {
  sync_gradients_reference(comm, gradients);
  for (const auto& each : gradients) {
    for (float& value : each) value /= static_cast<float>(comm.size());
  }
}

// == not-the-ring | messages | pass AllReduceAlgorithm::ring
inline void sync_gradients_not_the_ring(const Communicator& comm,
                                        const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& each : gradients) message.insert(message.end(), each.begin(), each.end());
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::recursive_doubling);
  const float* from = message.data();
  for (const auto& each : gradients) {
    std::copy_n(from, each.size(), each.begin());
    from += each.size();
  }
}

// == parts-of-a-growing-vector | shares | owns nothing
// Remembers each gradient's place in the message, which moves whenever it grows.
inline void sync_gradients_parts_of_a_growing_vector(
    const Communicator& comm, const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  std::vector<std::span<float>> parts;
  for (const auto& from : gradients) {
    const std::size_t begin = message.size();
    message.insert(message.end(), from.begin(), from.end());
    parts.push_back(std::span<float>(message).subspan(begin));
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    std::ranges::copy(parts[k], gradients[k].begin());
  }
}

}  // namespace dist::exercise
