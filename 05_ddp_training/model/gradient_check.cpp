#include "05_ddp_training/model/gradient_check.hpp"

#include "05_ddp_training/model/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kElements = 12;  // of each parameter that are compared
constexpr float kOld = 7;              // what is in gradients that must be replaced
constexpr double kTolerance = 0.02;    // of the parameter's largest gradient

using Numbers = std::vector<std::vector<float>>;  // of each parameter

Numbers numbers_of(const Module& model, Tensor Parameter::*part) {
  Numbers all;
  for (const Parameter& parameter : model.parameters()) {
    const std::span<const float> numbers = (parameter.*part).span();
    all.emplace_back(numbers.begin(), numbers.end());
  }
  return all;
}

// Of finite numbers: std::max would ignore a NaN.
double largest(const std::vector<float>& numbers) {
  double most = 0;
  for (const float each : numbers) most = std::max(most, std::abs(double{each}));
  return most;
}

// A model with a batch and a loss.
struct Check {
  Module& model;
  Tensor input;
  std::span<const std::int32_t> targets;
  const Stream& stream;
  CrossEntropyLoss loss{};

  double forward() {
    loss.forward(model.forward(input, stream), targets, stream);
    return loss.value(stream);
  }
  // What may be in the gradients beforehand.
  void fill(float number) {
    for (const Parameter& parameter : model.parameters()) {
      std::ranges::fill(parameter.grad.span(), number);
    }
  }
  Numbers gradients(Accumulate accumulate = Accumulate::no) {
    forward();
    model.backward(loss.grad(), stream, accumulate);
    return numbers_of(model, &Parameter::grad);
  }
  // The change of the loss with one number, to both sides.
  double slope(float& number, float h) {
    const float before = number;
    number = before + h;
    const double above = forward();
    number = before - h;
    const double below = forward();
    number = before;
    return (above - below) / (2.0 * h);
  }

  // A tolerance that comes from an infinite gradient would allow everything.
  std::string not_finite(const Numbers& gradients) const {
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const auto& all = gradients[p];
      const auto bad = std::ranges::find_if_not(all, [](float x) { return std::isfinite(x); });
      if (bad == all.end()) continue;
      return fmt::format("{}: element {} of its gradient is {}", model.parameters()[p].name,
                         bad - all.begin(), *bad);
    }
    return "";
  }
  // What the hook says too early, twice or never.
  std::string wrong_hook() {
    fill(kOld);  // so that a gradient that is named before it is written is not right by chance
    forward();
    Numbers when(model.parameters().size());
    std::vector<int> times(when.size());
    model.backward(loss.grad(), stream, Accumulate::no, [&](std::size_t p) {
      const std::span<const float> now = model.parameters()[p].grad.span();
      when.at(p).assign(now.begin(), now.end());
      ++times.at(p);
    });
    const Numbers end = numbers_of(model, &Parameter::grad);
    for (std::size_t p = 0; p < when.size(); ++p) {
      const std::string& name = model.parameters()[p].name;
      if (times[p] != 1) {
        return fmt::format("{}: the hook named it {} times, not once", name, times[p]);
      }
      if (when[p] != end[p]) {
        return fmt::format("{}: its gradient changed after the hook had named it", name);
      }
    }
    return "";
  }

  std::string wrong_slope(const Numbers& gradients) {
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const Parameter& parameter = model.parameters()[p];
      const std::size_t count = parameter.value.numel();
      const double tolerance = std::max(kTolerance * largest(gradients[p]), 1e-4);
      for (std::size_t k = 0; k < std::min(count, kElements); ++k) {
        const std::size_t i = k * count / std::min(count, kElements);
        const double said = gradients[p][i];
        double is = 0;
        // A ReLU's kink within a step makes its slope wrong, so a smaller one is tried, too.
        const bool right = std::ranges::any_of(std::vector{1e-2F, 2e-3F}, [&](float h) {
          is = slope(parameter.value.span()[i], h);
          return std::abs(is - said) <= tolerance;
        });
        if (right) continue;
        return fmt::format(
            "{}: backward says {:.4g} for element {} of its gradient, the loss "
            "changes by {:.4g}",
            parameter.name, said, i, is);
      }
    }
    return "";
  }

  // Compares with `factor` times `expected`.
  std::string unlike(const Numbers& expected, float factor, const Numbers& found,
                     const std::string& what) const {
    for (std::size_t p = 0; p < expected.size(); ++p) {
      const double tolerance = 1e-4 * std::max(largest(expected[p]), 1e-3);
      for (std::size_t i = 0; i < expected[p].size(); ++i) {
        if (std::abs(double{found[p][i]} - factor * expected[p][i]) <= tolerance) continue;
        return fmt::format("{}: {}: element {} of its gradient is {:.4g}, not {:.4g}",
                           model.parameters()[p].name, what, i, found[p][i],
                           factor * expected[p][i]);
      }
    }
    return "";
  }
};

std::string first_wrong(Check& check) {
  check.fill(0);
  const Numbers once = check.gradients();
  std::string wrong = check.not_finite(once);
  check.fill(kOld);
  if (wrong.empty()) {
    wrong = check.unlike(once, 1, check.gradients(),
                         "with Accumulate::no, what was there before is left");
  }
  if (wrong.empty()) wrong = check.wrong_slope(once);
  if (wrong.empty()) wrong = check.wrong_hook();
  if (wrong.empty()) {
    check.gradients();
    wrong = check.unlike(once, 2, check.gradients(Accumulate::yes),
                         "with Accumulate::yes, a batch is not added");
  }
  const std::size_t rows = check.input.dim(0), some = (rows + 1) / 2;
  if (!wrong.empty() || some == rows) return wrong;
  const std::size_t per_row = check.targets.size() / rows;
  Check smaller{check.model, check.input.rows(some), check.targets.first(some * per_row),
                check.stream};
  const Numbers after_larger = smaller.gradients();
  wrong = smaller.not_finite(after_larger);
  return wrong.empty() ? smaller.wrong_slope(after_larger) : wrong;
}

}  // namespace

std::string wrong_gradient(Module& model, const Tensor& input,
                           std::span<const std::int32_t> targets) {
  const Stream stream(Device{});
  const Numbers before = numbers_of(model, &Parameter::grad);
  Check check{model, input, targets, stream};
  const std::string wrong = first_wrong(check);
  for (std::size_t p = 0; p < before.size(); ++p) {
    std::ranges::copy(before[p], model.parameters()[p].grad.span().begin());
  }
  return wrong;
}

}  // namespace dist
