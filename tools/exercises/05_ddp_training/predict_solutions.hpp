// Known solutions of the exercise predict: the reference, and others, right and wrong.
#pragma once

#include "05_ddp_training/exercise/step_to_predict.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

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

// == helpers
// When each bucket is full, how long its all-reduce takes, and when backward starts and ends.
struct Buckets {
  double forward_ms, backward_end_ms;
  std::vector<double> full_ms{}, took_ms{};

  double sum_ms() const { return std::accumulate(took_ms.begin(), took_ms.end(), 0.0); }
};

// The reference's formulas. A wrong solution has another one in place of one of them.
struct Formulas {
  using Step = StepToPredict;
  using Cost = std::function<double(double bytes)>;

  std::function<double(const Step&, double bytes)> all_reduce_ms = [](const Step& step,
                                                                      double bytes) {
    return 2 * (step.ranks - 1) * (step.alpha_ms + bytes / step.ranks * step.beta_ms_per_byte);
  };
  std::function<double(const Step::Layer&)> bucket_bytes = [](const Step::Layer& layer) {
    return layer.weight_bytes + layer.bias_bytes;
  };
  std::function<double(const Step::Layer&, const Cost&)> by_hand_ms =
      [](const Step::Layer& layer, const Cost& cost) {
        return cost(layer.weight_bytes) + cost(layer.bias_bytes);
      };
  std::function<double(const Buckets&)> overlap_ms = [](const Buckets& all) {
    double end = 0;
    for (std::size_t b = 0; b < all.full_ms.size(); ++b) {
      end = std::max(end, all.full_ms[b]) + all.took_ms[b];
    }
    return end;
  };
};

inline Prediction predict_with(const StepToPredict& step, const Formulas& formulas) {
  const auto cost = [&](double bytes) { return formulas.all_reduce_ms(step, bytes); };
  double now = step.forward_ms, bytes = 0, by_hand = 0;
  Buckets buckets{step.forward_ms, 0};
  std::size_t layer = 0;
  for (const std::size_t count : step.buckets) {
    double bucket = 0;
    for (std::size_t k = 0; k < count; ++k, ++layer) {
      now += step.layers[layer].backward_ms;
      bucket += formulas.bucket_bytes(step.layers[layer]);
      by_hand += formulas.by_hand_ms(step.layers[layer], cost);
    }
    buckets.full_ms.push_back(now);
    buckets.took_ms.push_back(cost(bucket));
    bytes += bucket;
  }
  buckets.backward_end_ms = now;
  return {now + by_hand, now + cost(bytes), formulas.overlap_ms(buckets)};
}

// == whole-messages | one-bucket | alpha + S / N beta
// Takes each message to be the whole tensor.
inline Prediction predict_whole_messages(const StepToPredict& step) {
  Formulas wrong;
  wrong.all_reduce_ms = [](const StepToPredict& its, double bytes) {
    return 2 * (its.ranks - 1) * (its.alpha_ms + bytes * its.beta_ms_per_byte);
  };
  return predict_with(step, wrong);
}

// == whole-numbers | on-paper | with a pencil
// Divides integers.
inline Prediction predict_whole_numbers(const StepToPredict& step) {
  Formulas wrong;
  wrong.all_reduce_ms = [](const StepToPredict& its, double bytes) {
    return 2 * its.ranks * ((its.ranks - 1) / its.ranks) *
           (its.alpha_ms + bytes / its.ranks * its.beta_ms_per_byte);
  };
  return predict_with(step, wrong);
}

// == pays-alone | one-rank | one rank sends nothing
// A single rank sends, too.
inline Prediction predict_pays_alone(const StepToPredict& step) {
  Formulas wrong;
  wrong.all_reduce_ms = [](const StepToPredict& its, double bytes) {
    return 2 * std::max(1, its.ranks - 1) *
           (its.alpha_ms + bytes / its.ranks * its.beta_ms_per_byte);
  };
  return predict_with(step, wrong);
}

// == no-biases | one-bucket | weights and biases
// Leaves the biases out of the bucket.
inline Prediction predict_no_biases(const StepToPredict& step) {
  Formulas wrong;
  wrong.bucket_bytes = [](const auto& layer) { return layer.weight_bytes; };
  return predict_with(step, wrong);
}

// == free-biases | by-hand | of its own bytes
// Counts an all-reduce for each bias, but not its bytes.
inline Prediction predict_free_biases(const StepToPredict& step) {
  Formulas wrong;
  wrong.by_hand_ms = [](const auto& layer, const auto& cost) {
    return cost(layer.weight_bytes) + cost(0);
  };
  return predict_with(step, wrong);
}

// == one-per-layer | on-paper | each weight and each bias
// One all-reduce per layer, by hand.
inline Prediction predict_one_per_layer(const StepToPredict& step) {
  Formulas wrong;
  wrong.by_hand_ms = [](const auto& layer, const auto& cost) {
    return cost(layer.weight_bytes + layer.bias_bytes);
  };
  return predict_with(step, wrong);
}

// == the-larger | on-paper | so it is exposed on any link
// Takes the larger of backward and communication.
inline Prediction predict_the_larger(const StepToPredict& step) {
  Formulas wrong;
  wrong.overlap_ms = [](const Buckets& all) {
    return std::max(all.backward_end_ms, all.forward_ms + all.sum_ms());
  };
  return predict_with(step, wrong);
}

// == all-at-once | one-at-a-time | when the link is free
// Lets the all-reduces run at the same time.
inline Prediction predict_all_at_once(const StepToPredict& step) {
  Formulas wrong;
  wrong.overlap_ms = [](const Buckets& all) {
    double end = 0;
    for (std::size_t b = 0; b < all.full_ms.size(); ++b) {
      end = std::max(end, all.full_ms[b] + all.took_ms[b]);
    }
    return end;
  };
  return predict_with(step, wrong);
}

// == starts-early | one-at-a-time | or when it is full
// Starts each bucket when the previous one has ended.
inline Prediction predict_starts_early(const StepToPredict& step) {
  Formulas wrong;
  wrong.overlap_ms = [](const Buckets& all) {
    return std::max(all.forward_ms + all.sum_ms(), all.backward_end_ms + all.took_ms.back());
  };
  return predict_with(step, wrong);
}

// == never-idle | idle-link | loses time
// Takes the link to be busy from its first bucket on.
inline Prediction predict_never_idle(const StepToPredict& step) {
  Formulas wrong;
  wrong.overlap_ms = [](const Buckets& all) {
    return std::max(all.full_ms.front() + all.sum_ms(),
                    all.backward_end_ms + all.took_ms.back());
  };
  return predict_with(step, wrong);
}

}  // namespace dist::exercise
