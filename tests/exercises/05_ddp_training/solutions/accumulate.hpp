// Right and wrong ways to process a batch in parts. None is an edited copy of the reference.
#pragma once

#include "tests/exercises/05_ddp_training/reference/accumulate.hpp"
#include "tests/exercises/05_ddp_training/reference/sync_gradients.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

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

// Right, but written differently: keeps one sum per gradient, then calls the base exercise.
inline void by_sync(const Communicator& comm, std::size_t parts,
                    const std::vector<std::span<float>>& gradients,
                    const std::function<void(std::size_t k)>& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  sync_gradients(comm, gradients);
}

// Sends one message, but without the last micro-batch.
inline void before_the_last(const Communicator& comm, std::size_t parts,
                            const std::vector<std::span<float>>& gradients,
                            const std::function<void(std::size_t k)>& backward) {
  if (parts == 1) return accumulate(comm, parts, gradients, backward);
  Sums sums(gradients);
  for (std::size_t k = 0; k + 1 < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(1);
  sync_gradients(comm, gradients);
  Sums all(gradients);
  all.add();
  backward(parts - 1);
  all.add();
  all.put_back(over(parts));
}

// The mean of the previous mean and the next micro-batch, so the last micro-batch has a weight
// of one half.
inline void running_mean(const Communicator& comm, std::size_t parts,
                         const std::vector<std::span<float>>& gradients,
                         const std::function<void(std::size_t k)>& backward) {
  backward(0);
  for (std::size_t k = 1; k < parts; ++k) {
    Sums sums(gradients);
    sums.add();
    backward(k);
    sums.add();
    sums.put_back(0.5F);
  }
  sync_gradients(comm, gradients);
}

// Keeps all micro-batches and sends them in one message.
inline void sends_all(const Communicator& comm, std::size_t parts,
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
