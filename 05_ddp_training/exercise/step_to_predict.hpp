// What the exercise `predict` receives and returns. This file is complete.
#pragma once

#include <cstddef>
#include <vector>

namespace dist::exercise {

// A training step without an optimizer, and the links that carry its gradients. All times are
// in milliseconds. A message of n bytes takes alpha_ms + n beta_ms_per_byte, adding is free,
// and each all-reduce is lesson 3's ring.
struct StepToPredict {
  int ranks = 1;
  double alpha_ms = 0;
  double beta_ms_per_byte = 0;
  double forward_ms = 0;
  // At least one, in the order of backward, which begins with the last layer. When a layer's
  // time is over, both of its gradients are ready.
  struct Layer {
    double backward_ms;
    double weight_bytes;
    double bias_bytes;
  };
  std::vector<Layer> layers{};
  // How many layers each bucket holds: {2, 1} are the last two layers and the first one.
  std::vector<std::size_t> buckets{};
};

// How long the whole step takes, from the start of forward to the last average.
struct Prediction {
  double by_hand_ms;     // after backward, one all-reduce per gradient, one after the other
  double one_bucket_ms;  // after backward, a single all-reduce of all gradients
  double overlap_ms;     // one all-reduce per bucket, during backward
};

}  // namespace dist::exercise
