// Known solutions of the exercise accumulate: the reference, and others, right and wrong.
// More are in accumulate_changes.toml.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/step_to_predict.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
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

// == sends-all | bytes | not one per micro-batch
// Sends all micro-batches in one message, which is K times as long.
inline void accumulate_sends_all(const Communicator& comm, std::size_t parts,
                                 const std::vector<std::span<float>>& gradients,
                                 const std::function<void(std::size_t k)>& backward) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> sums(parts * total);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    std::size_t next = 0;
    for (const auto& gradient : gradients) {
      for (const float value : gradient)
        sums[k * total + next++] = value / static_cast<float>(parts);
    }
  }
  all_reduce<float>(comm, sums, ReduceOp::avg, AllReduceAlgorithm::ring);
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) {
      value = 0;
      for (std::size_t k = 0; k < parts; ++k) value += sums[k * total + next];
      ++next;
    }
  }
}

// == adds-what-was-lost | same-bits | copy its result back unchanged
// Adds its own rounding errors after the message, so each rank ends with other bits.
inline void accumulate_adds_what_was_lost(const Communicator& comm, std::size_t parts,
                                          const std::vector<std::span<float>>& gradients,
                                          const std::function<void(std::size_t k)>& backward) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> sums(total), lost(total);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    std::size_t next = 0;
    for (const auto& gradient : gradients) {
      for (const float value : gradient) {
        const float before = sums[next], term = value / static_cast<float>(parts);
        sums[next] += term;
        lost[next] += term - (sums[next] - before);  // as in Kahan's summation
        ++next;
      }
    }
  }
  all_reduce<float>(comm, sums, ReduceOp::avg, AllReduceAlgorithm::ring);
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) {
      value = sums[next] + lost[next];
      ++next;
    }
  }
}

}  // namespace dist::exercise
