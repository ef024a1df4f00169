// A model's gradients, for the checks: several spans, each with its own guard zones.
#pragma once

#include "tests/exercises/message_checks.hpp"

namespace dist::exercise {

class GradientSet {
 public:
  explicit GradientSet(const std::vector<std::size_t>& lengths) {
    for (const std::size_t length : lengths) gradients_.emplace_back(length);
  }

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

  // Expects element i of gradient g to equal expected(g, i), within rounding.
  template <class Expected>
  void expect(Trial& trial, const Expected& expected, double tolerance = 1e-6) {
    for (std::size_t g = 0; g < count(); ++g) {
      for (std::size_t i = 0; i < at(g).size(); ++i) {
        const double want = expected(g, i);
        if (std::abs(at(g)[i] - want) <= tolerance * std::abs(want)) continue;
        return trial.wrong(
            fmt::format("{}: element {} is {}, expected {}", name(g), i, at(g)[i], want));
      }
    }
  }
  void expect_guards(Trial& trial) {
    for (std::size_t g = 0; g < count(); ++g) {
      trial.expect(gradients_[g].intact(), "{}: something was written out of bounds", name(g));
    }
  }
  // Expects all ranks to hold the same bits as rank 0.
  void expect_same_bits(Trial& trial) {
    for (std::size_t g = 0; g < count(); ++g) {
      exercise::expect_same_bits(trial, at(g), name(g) + ": ");
    }
  }

  // "gradient 1 of 4 (1 element)", counted from 0.
  std::string name(std::size_t gradient) {
    const std::size_t length = at(gradient).size();
    return fmt::format("gradient {} of {} ({} element{})", gradient, count(), length,
                       length == 1 ? "" : "s");
  }

 private:
  std::vector<Guarded> gradients_;
};

}  // namespace dist::exercise
