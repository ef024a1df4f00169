// A model's gradients, for the checks: several spans, each with its own guard zones.
#pragma once

#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using Lengths = std::vector<std::size_t>;

inline const std::string kNotFiniteMust = "what is not finite on one rank must stay so on all";
inline const std::string kNotFiniteHint =
    "pass on what is there, NaN and infinity, too: if a run diverges, somebody must see it. "
    "Whoever wants to skip such a step decides that after the average, on all ranks alike";

inline const std::string kEmptyHint =
    "a gradient may be empty. It adds nothing to the message, and the gradients after it still "
    "count";

// What gradients hold before the first step.
inline constexpr float kOfNoStep = -4444.0F;

class GradientSet {
 public:
  explicit GradientSet(const Lengths& lengths) : gradients_(lengths.begin(), lengths.end()) {}

  std::size_t count() const { return gradients_.size(); }
  std::span<float> at(std::size_t gradient) { return gradients_[gradient].span(); }
  std::vector<std::span<float>> spans() {
    std::vector<std::span<float>> all;
    for (Guarded& gradient : gradients_) all.push_back(gradient.span());
    return all;
  }

  // Sets element i of gradient g to value(g, i).
  template <class Value>
  void fill(const Value& value) {
    for (std::size_t g = 0; g < count(); ++g) {
      for (std::size_t i = 0; i < at(g).size(); ++i) at(g)[i] = value(g, i);
    }
  }
  // With this rank's tracers, which `salt` makes different in each step.
  void fill_tracers(const Trial& trial, std::size_t salt = 0) {
    fill([&](std::size_t g, std::size_t i) {
      return trial.value(trial.rank(), salt + 100 * g + i);
    });
  }
  // With numbers no sum of which is exact.
  void fill_inexact(const Trial& trial, std::size_t salt = 0) {
    const float scale = trial.rank() % 2 == 0 ? 0.001F : 7.0F;
    fill([&](std::size_t g, std::size_t i) {
      return scale / static_cast<float>(3 * trial.rank() + 7) +
             scale * 0.1F * static_cast<float>(i + g + salt);
    });
  }

  // Expects element i of gradient g to equal expected(g, i), within rounding.
  template <class Expected>
  void expect(Trial& trial, const Expected& expected,
              const std::function<Seen(double value, double want, std::size_t g,
                                       std::size_t i)>& seen_of = {}) {
    for (std::size_t g = 0; g < count(); ++g) {
      const auto want = [&](std::size_t i) { return expected(g, i); };
      expect_values(trial, at(g), name(g), want, 1e-6, [&](std::size_t i, float value) {
        return seen_of ? seen_of(value, want(i), g, i) : Seen::something_else;
      });
    }
  }
  // Expects the means of all ranks' tracers, and nothing written outside the gradients.
  void expect_means(Trial& trial, std::size_t salt = 0) {
    expect(
        trial, [&](std::size_t g, std::size_t i) { return trial.mean(salt + 100 * g + i); },
        [](double value, auto...) {
          return value == kOfNoStep ? Seen::stale : Seen::something_else;
        });
    expect_guards(trial);
  }
  void expect_guards(Trial& trial) {
    for (std::size_t g = 0; g < count(); ++g) expect_intact(trial, gradients_[g], name(g));
  }
  // Lets the last rank have NaN, and infinity if there is room. All others are 1.
  void fill_not_finite(const Trial& trial) {
    fill([&](std::size_t g, std::size_t i) {
      const bool is_last = trial.rank() == trial.size() - 1;
      return is_last && i == 1 ? (g == 0 ? std::nanf("") : INFINITY) : 1.0F;
    });
  }
  void expect_not_finite(Trial& trial) {
    for (std::size_t g = 0; g < count(); ++g) {
      for (std::size_t i = 0; i < at(g).size(); ++i) {
        const float value = at(g)[i];
        const bool right = i != 1   ? std::abs(value - 1) < 1e-6F
                           : g == 0 ? std::isnan(value)
                                    : std::isinf(value);
        trial.expect(right, "rank {} has {}: {}element {} is {:.9g}, expected {}",
                     trial.size() - 1, "NaN and infinity", name(g), i, value,
                     i != 1   ? "1"
                     : g == 0 ? "NaN"
                              : "infinity");
      }
    }
  }
  // Expects these bits, of gradient 0 first.
  void expect_bits(Trial& trial, std::span<const float> all) {
    for (std::size_t g = 0; g < count(); ++g) {
      for (const float value : at(g)) {
        trial.expect(value == all.front(), "{}{:.9g}, expected {:.9g}", name(g), value,
                     all.front());
        all = all.subspan(1);
      }
    }
  }
  // Expects all ranks to hold the same bits as rank 0.
  void expect_same_bits(Trial& trial) {
    for (std::size_t g = 0; g < count(); ++g) {
      exercise::expect_same_bits(trial, at(g), name(g));
    }
  }

  // "gradient 1 of 4, ", counted from 0, after what `in` says of the call.
  std::string name(std::size_t gradient) const {
    return fmt::format("{}gradient {} of {}, ", in, gradient, count());
  }
  std::string in{};

 private:
  std::vector<Guarded> gradients_;
};

}  // namespace dist::exercise
