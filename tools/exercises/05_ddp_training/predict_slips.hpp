// The mistakes in a formula for a step's time that its numbers give away.
#pragma once

#include "05_ddp_training/exercise/step_to_predict.hpp"
#include "tools/exercises/05_ddp_training/predict_solutions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dist::exercise {

using Predicts = std::function<Prediction(const StepToPredict&)>;

using Ms = double Prediction::*;
inline constexpr Ms kByHand = &Prediction::by_hand_ms, kOneBucket = &Prediction::one_bucket_ms,
                    kOverlap = &Prediction::overlap_ms;

// Four layers in three buckets, the last layer first.
inline StepToPredict with(double alpha_ms, double beta_ms_per_byte, int ranks = 4) {
  StepToPredict step{ranks, alpha_ms, beta_ms_per_byte, /*forward_ms=*/7.5, {}, {2, 1, 1}};
  step.layers = {{2.25, 1e4, 100}, {6.5, 2e5, 4e3}, {5.75, 4e6, 4e3}, {9.625, 1e6, 4e3}};
  return step;
}

// A formula that lacks something is right for a step in which that is different, or if
// something is added to its times afterwards.
struct Slip {
  const char* text;
  std::function<void(StepToPredict&)> in;
  std::function<void(const StepToPredict&, Prediction&)> after = {};
};

inline void scale(StepToPredict& step, double alpha, double beta) {
  step.alpha_ms *= alpha;
  step.beta_ms_per_byte *= beta;
}

inline const std::vector<Slip> kSlips{
    {"sizes were counts of floats (they are bytes already)",
     [](StepToPredict& step) { scale(step, 1, sizeof(float)); }},
    {"each of its messages had all S bytes, not S / N",
     [](StepToPredict& step) { scale(step, 1, step.ranks); }},
    {"an all-reduce had N - 1 messages, not 2 (N - 1)",
     [](StepToPredict& step) { scale(step, 0.5, 0.5); }},
    {"an all-reduce had 2 N messages, not 2 (N - 1)",
     [](StepToPredict& step) {
       const double more = step.ranks / (step.ranks - 1.0);
       scale(step, more, more);
     }},
    {"an all-reduce paid alpha once, not for each of its 2 (N - 1) messages",
     [](StepToPredict& step) { scale(step, 0.5 / (step.ranks - 1), 1); }},
    {"alpha were divided by N, too (a message has S / N bytes, and all of alpha)",
     [](StepToPredict& step) { scale(step, 1.0 / step.ranks, 1); }},
    {"a message cost only alpha", [](StepToPredict& step) { scale(step, 1, 0); }},
    {"a message cost only its bytes", [](StepToPredict& step) { scale(step, 0, 1); }},
    {"biases had no bytes",
     [](StepToPredict& step) {
       for (StepToPredict::Layer& layer : step.layers) layer.bias_bytes = 0;
     }},
    {"the weight and the bias of a layer shared one all-reduce", [](StepToPredict&) {},
     [](const StepToPredict& step, Prediction& time) {
       time.by_hand_ms -=
           static_cast<double>(step.layers.size()) * 2 * (step.ranks - 1) * step.alpha_ms;
     }},
    {"S / N were a whole number, without its fraction", [](StepToPredict&) {},
     [](const StepToPredict& step, Prediction& time) {
       double bytes = 0;
       for (const auto& layer : step.layers) bytes += layer.weight_bytes + layer.bias_bytes;
       const double fraction = bytes / step.ranks - std::floor(bytes / step.ranks);
       time.one_bucket_ms -= 2 * (step.ranks - 1) * fraction * step.beta_ms_per_byte;
     }},
    {"forward took no time", [](StepToPredict& step) { step.forward_ms = 0; }},
    {"backward took no time",
     [](StepToPredict& step) {
       for (StepToPredict::Layer& layer : step.layers) layer.backward_ms = 0;
     }},
    {"the time of each layer were a whole number",
     [](StepToPredict& step) {
       for (StepToPredict::Layer& layer : step.layers) {
         layer.backward_ms = std::floor(layer.backward_ms);
       }
     }},
    {"backward stood still while a bucket is sent", [](StepToPredict&) {},
     [](const StepToPredict& step, Prediction& time) {
       const auto buckets = static_cast<double>(step.buckets.size());
       time.overlap_ms =
           time.one_bucket_ms + (buckets - 1) * 2 * (step.ranks - 1) * step.alpha_ms;
     }},
    {"the layers were in the opposite order",
     [](StepToPredict& step) { std::ranges::reverse(step.layers); }},
    {"bucket b began with layer b, wherever the one before ended",
     [](StepToPredict& step) {
       std::vector<StepToPredict::Layer> layers;
       for (std::size_t b = 0; b < step.buckets.size(); ++b) {
         for (std::size_t k = 0; k < step.buckets[b]; ++k) layers.push_back(step.layers[b + k]);
       }
       step.layers = layers;
     }},
    {"every bucket began with the first layer",
     [](StepToPredict& step) {
       std::vector<StepToPredict::Layer> layers;
       for (const std::size_t count : step.buckets) {
         layers.insert(layers.end(), step.layers.begin(),
                       step.layers.begin() + static_cast<std::ptrdiff_t>(count));
       }
       step.layers = layers;
     }},
    {"each bucket also sent the bytes of all buckets before it",
     [](StepToPredict& step) {
       double before = 0;
       std::size_t layer = 0;
       for (const std::size_t count : step.buckets) {
         double own = 0;
         for (std::size_t k = 0; k < count; ++k, ++layer) {
           own += step.layers[layer].weight_bytes + step.layers[layer].bias_bytes;
         }
         if (count > 0) step.layers[layer - 1].weight_bytes += before;
         before += own;
       }
     }},
    {"a bucket were full as soon as its first layer is done",
     [](StepToPredict& step) {
       double later = 0;  // of the bucket before
       std::size_t layer = 0;
       for (const std::size_t count : step.buckets) {
         for (std::size_t k = 0; k < count; ++k, ++layer) {
           double& ms = step.layers[layer].backward_ms;
           if (k > 0) {
             later += std::exchange(ms, 0);
           } else {
             ms += std::exchange(later, 0);
           }
         }
       }
     }},
};

// The slip that explains this time in all of some steps, as the end of a sentence.
inline std::string slip_of(const Predicts& solution, Ms ms) {
  const std::array steps{with(0.02, 2e-6, 7), with(3, 1e-6, 4), with(0.5, 3e-6, 3),
                         with(1, 1e-5, 2)};
  for (const Slip& slip : kSlips) {
    bool changes = false;  // this time, in any of the steps
    const bool explains = std::ranges::all_of(steps, [&](const StepToPredict& step) {
      StepToPredict other = step;
      slip.in(other);
      Prediction right = predict_reference(other);
      if (slip.after) slip.after(step, right);
      changes |= right.*ms != predict_reference(step).*ms;
      const double yours = solution(step).*ms;
      return std::abs(right.*ms - yours) <= 1e-9 * yours;
    });
    if (explains && changes) return fmt::format(", which would be right if {}", slip.text);
  }
  return "";
}

}  // namespace dist::exercise
