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

// == sync_gradients/by-offsets
// Right, but written differently: keeps an offset, and calls the two halves of the ring.
inline void sync_gradients_by_offsets(const Communicator& comm,
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

// == sync_gradients/padded
// Packs the gradients into a table whose rows are all as long as the longest gradient.
inline void sync_gradients_padded(const Communicator& comm,
                                  const std::vector<std::span<float>>& gradients) {
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

// == helpers
// Sums with the same lengths as the gradients.
class Sums {
 public:
  explicit Sums(const std::vector<std::span<float>>& gradients) : gradients_(gradients) {
    for (const auto& gradient : gradients) sums_.emplace_back(gradient.size(), 0.0F);
  }
  void add() {
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      for (std::size_t i = 0; i < sums_[g].size(); ++i) sums_[g][i] += gradients_[g][i];
    }
  }
  void put_back(float factor) const {
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      for (std::size_t i = 0; i < sums_[g].size(); ++i) gradients_[g][i] = factor * sums_[g][i];
    }
  }

 private:
  const std::vector<std::span<float>>& gradients_;
  std::vector<std::vector<float>> sums_;
};

inline float over(std::size_t parts) {
  return 1.0F / static_cast<float>(parts);
}

// == accumulate/sends-all
// Keeps all micro-batches and sends them in one message.
inline void accumulate_sends_all(const Communicator& comm, std::size_t parts,
                                 const std::vector<std::span<float>>& gradients,
                                 const std::function<void(std::size_t k)>& backward) {
  std::vector<float> message;
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    for (const auto& gradient : gradients) {
      message.insert(message.end(), gradient.begin(), gradient.end());
    }
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  const std::size_t total = message.size() / parts;
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) {
      value = 0;
      for (std::size_t k = 0; k < parts; ++k) value += message[k * total + next] * over(parts);
      ++next;
    }
  }
}

}  // namespace dist::exercise
