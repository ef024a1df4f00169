// Our solution of the exercise predict. More are in predict_changes.toml.
#pragma once

#include "05_ddp_training/exercise/step_to_predict.hpp"

#include <algorithm>
#include <cstddef>

namespace dist::exercise {

// == reference | done
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
