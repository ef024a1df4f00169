// Known solutions of the exercise predict: the reference, and others, right and wrong.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
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

// == whole-messages | one-bucket | alpha + S / N beta
// Takes each message to be the whole tensor.
inline Prediction predict_whole_messages(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * (step.ranks - 1) * (step.alpha_ms + bytes * step.beta_ms_per_byte);
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

// == whole-numbers | on-paper | with a pencil
// Divides integers.
inline Prediction predict_whole_numbers(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * step.ranks * ((step.ranks - 1) / step.ranks) *
           (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
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

// == pays-alone | one-rank | one rank sends nothing
// A single rank sends, too.
inline Prediction predict_pays_alone(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * std::max(1, step.ranks - 1) *
           (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
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

// == no-biases | one-bucket | weights and biases
// Leaves the biases out of the bucket.
inline Prediction predict_no_biases(const StepToPredict& step) {
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
      bucket += costs.weight_bytes;
      by_hand += all_reduce_ms(costs.weight_bytes) + all_reduce_ms(costs.bias_bytes);
    }
    end = std::max(end, now) + all_reduce_ms(bucket);
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), end};
}

// == free-biases | by-hand | of its own bytes
// Counts an all-reduce for each bias, but not its bytes.
inline Prediction predict_free_biases(const StepToPredict& step) {
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
      by_hand += all_reduce_ms(costs.weight_bytes) + all_reduce_ms(0);
    }
    end = std::max(end, now) + all_reduce_ms(bucket);
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), end};
}

// == one-per-layer | on-paper | each weight and each bias
// One all-reduce per layer, by hand.
inline Prediction predict_one_per_layer(const StepToPredict& step) {
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
      by_hand += all_reduce_ms(costs.weight_bytes + costs.bias_bytes);
    }
    end = std::max(end, now) + all_reduce_ms(bucket);
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), end};
}

// == the-larger | on-paper | so it is exposed on any link
// Takes the larger of backward and communication.
inline Prediction predict_the_larger(const StepToPredict& step) {
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
    end += all_reduce_ms(bucket);
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), std::max(now, step.forward_ms + end)};
}

// == all-at-once | one-at-a-time | when the link is free
// Lets the all-reduces run at the same time.
inline Prediction predict_all_at_once(const StepToPredict& step) {
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
    end = std::max(end, now + all_reduce_ms(bucket));
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), end};
}

// == starts-early | one-at-a-time | or when it is full
// Starts each bucket when the previous one has ended.
inline Prediction predict_starts_early(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * (step.ranks - 1) * (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
  };
  double now = step.forward_ms;  // all layers so far have been computed
  double end = 0, last = 0;      // of the last all-reduce, with overlap
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
    last = all_reduce_ms(bucket);
    end += last;
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes),
          std::max(step.forward_ms + end, now + last)};
}

// == never-idle | idle-link | loses time
// Takes the link to be busy from its first bucket on.
inline Prediction predict_never_idle(const StepToPredict& step) {
  const auto all_reduce_ms = [&](double bytes) {
    return 2 * (step.ranks - 1) * (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
  };
  double now = step.forward_ms;         // all layers so far have been computed
  double end = 0, first = 0, last = 0;  // of the last all-reduce, with overlap
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
    if (first == 0) first = now;
    last = all_reduce_ms(bucket);
    end += last;
    bytes += bucket;
  }
  return {now + by_hand, now + all_reduce_ms(bytes), std::max(first + end, now + last)};
}

}  // namespace dist::exercise
