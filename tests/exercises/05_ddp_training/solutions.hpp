// Solutions to three of lesson 5's exercises, except edited copies of others (see
// solutions.txt).
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/exercise/step_to_predict.hpp"

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

// == predict/reference
inline Prediction predict_reference(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * (step.ranks - 1) * (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
  };
  double now = step.forward_ms;  // all layers so far have been computed
  double end = 0;                // of the last all-reduce, with overlap
  double bytes = 0, by_hand = 0;
  std::size_t layer = 0;
  for (const std::size_t count : step.buckets) {
    double bucket = 0;
    for (std::size_t k = 0; k < count; ++k, ++layer) {
      const StepToPredict::Layer& costs = step.layers[layer];
      now += costs.backward_ms;
      bucket += costs.weight_bytes + costs.bias_bytes;
      by_hand += all_reduce_ms(costs.weight_bytes) + all_reduce_ms(costs.bias_bytes);
    }
    end = std::max(end, now) + all_reduce_ms(bucket);
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), end};
}

}  // namespace dist::exercise
