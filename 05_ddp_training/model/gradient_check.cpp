#include "05_ddp_training/model/gradient_check.hpp"

#include "05_ddp_training/model/loss.hpp"
#include "common/join.hpp"
#include "common/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kElements = 16;  // of each parameter that are compared
constexpr float kOld = 7;              // what is in gradients that must be replaced

// Steps of the differences. Short ones cross few kinks; long ones drown the loss's rounding.
constexpr std::array kSteps = {1e-2, 5e-3, 2.5e-3};
constexpr double kRounding = 0x1p-23;  // of a loss, relative

using Numbers = std::vector<std::vector<float>>;  // of each parameter

Numbers numbers_of(const Module& model, Tensor Parameter::*part) {
  Numbers all;
  for (const Parameter& parameter : model.parameters()) {
    const std::span<const float> numbers = (parameter.*part).span();
    all.emplace_back(numbers.begin(), numbers.end());
  }
  return all;
}

void put_back(const Numbers& numbers, Module& model, Tensor Parameter::*part) {
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    std::ranges::copy(numbers[p], (model.parameters()[p].*part).span().begin());
  }
}

// Of finite numbers: std::max would ignore a NaN.
double largest(const std::vector<float>& numbers) {
  double most = 0;
  for (const float each : numbers) most = std::max(most, std::abs(double{each}));
  return most;
}

// The first, the last, and others by lot, the same in each comparison.
std::vector<std::size_t> elements_of(std::size_t count, Generator& generator) {
  std::vector<std::size_t> some = {0, count - 1};
  for (const std::size_t each : randperm(count, generator)) {
    if (some.size() == std::min(count, kElements)) break;
    if (each != 0 && each != count - 1) some.push_back(each);
  }
  if (count == 1) some.pop_back();
  return some;
}

// What is known of one parameter's gradient after some comparisons with the loss.
struct Evidence {
  std::size_t right = 0;  // numbers
  std::size_t wrong = 0;  // comparisons in which there was a wrong number
  bool is_zero = true;    // all numbers that were compared
  std::string first;      // what was wrong
};

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
  Check first_rows(std::size_t rows) const {
    const std::size_t per_row = targets.size() / input.dim(0);
    return {model, input.rows(rows), targets.first(rows * per_row), stream};
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

  // What backward without Accumulate leaves of earlier numbers.
  std::string wrong_replacing() {
    fill(0);
    const Numbers once = gradients();
    if (std::string wrong = not_finite(once); !wrong.empty()) return wrong;
    fill(kOld);
    return unlike(once, 1, gradients(), "with Accumulate::no, what was there before is left");
  }
  std::string wrong_adding() {
    const Numbers once = gradients();
    return unlike(once, 2, gradients(Accumulate::yes),
                  "with Accumulate::yes, a batch is not added");
  }

  // The loss with a number that is `step` larger, and smaller.
  std::pair<double, double> losses_beside(float& number, double step) {
    const float before = number;
    number = static_cast<float>(before + step);
    const double above = forward();
    number = static_cast<float>(before - step);
    const double below = forward();
    number = before;
    return {below, above};
  }

  enum class Says { right, wrong, nothing };
  // What the loss says of a gradient's element, which is `said`; `is` is what it should be.
  //
  // Where the loss is smooth, a shorter step hardly changes its slope, and halves the
  // difference of the slopes to both sides. The kink of a ReLU within a step changes one or the
  // other, so what does not agree is no evidence.
  Says compare(float& number, double said, double tolerance, double& is) {
    const double here = forward();
    double slope = 0, bend = 0;
    bool is_wrong = true;
    for (const double step : kSteps) {
      const auto [below, above] = losses_beside(number, step);
      is = (above - below) / (2 * step);
      if (std::abs(is - said) <= tolerance) return Says::right;
      const double bends = (above - 2 * here + below) / step;
      const double doubt =
          std::abs(is - slope) + std::abs(2 * bends - bend) + kRounding * here / step;
      if (step != kSteps[0]) is_wrong &= std::abs(is - said) > tolerance + 4 * doubt;
      slope = is, bend = bends;
    }
    return is_wrong ? Says::wrong : Says::nothing;
  }
  // Compares some elements of each gradient. `where` describes the place.
  std::string compare_all(std::vector<Evidence>& evidence, const std::string& where) {
    const Numbers gradients = this->gradients();
    if (std::string wrong = not_finite(gradients); !wrong.empty()) return wrong;
    Generator generator(0);
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const Parameter& parameter = model.parameters()[p];
      const double least =
          0.005 * largest(gradients[p]) + 2 * kRounding * forward() / kSteps[0];
      bool is_wrong = false;
      for (const std::size_t i : elements_of(gradients[p].size(), generator)) {
        const double said = gradients[p][i];
        double is = 0;
        const Says says =
            compare(parameter.value.span()[i], said, 0.02 * std::abs(said) + least, is);
        evidence[p].right += says == Says::right;
        evidence[p].is_zero &= said == 0 && says == Says::right;
        if (says != Says::wrong || std::exchange(is_wrong, true)) continue;
        ++evidence[p].wrong;
        if (!evidence[p].first.empty()) continue;
        evidence[p].first = fmt::format(
            "{}: backward says {:.4g} for element {} of its gradient, the loss changes by "
            "{:.4g}{}",
            parameter.name, said, i, is, where);
      }
    }
    return "";
  }
};

// Parameters beside the model's own. Where these are 0, for example the last weight of a
// branch, no gradient comes through, so nothing behind it can be compared.
void draw_parameters(const Numbers& own, Module& model, std::uint64_t seed) {
  Generator generator(seed);
  for (std::size_t p = 0; p < own.size(); ++p) {
    const Tensor& value = model.parameters()[p].value;
    const std::span<float> numbers = value.span();
    const double width = value.shape().size() < 2
                             ? 0.3
                             : 1 / std::sqrt(static_cast<double>(value.shape().back()));
    fill_uniform(numbers, -width, width, generator);
    std::ranges::transform(numbers, own[p], numbers.begin(), std::plus{});
  }
}

std::string first_wrong(Check& check, const Numbers& own, std::string* compared) {
  const double loss = check.forward();
  if (const double again = check.forward(); std::abs(again - loss) > 1e-5 * std::abs(loss)) {
    return fmt::format(
        "loss: two forwards of the same batch give {:.7g} and {:.7g}, so there is nothing to "
        "compare with; leave out what is random",
        loss, again);
  }
  const std::size_t rows = check.input.dim(0);
  std::vector<std::size_t> parts = {rows, (rows + 1) / 2, 1};  // smaller ones after larger ones
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::vector<Evidence> evidence(own.size());
  std::size_t places = 0;
  std::string broken;  // of what data parallelism relies on; wrong numbers may be its cause
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    if (seed > 0) draw_parameters(own, check.model, seed);
    if (std::string wrong = check.wrong_replacing(); !wrong.empty()) return wrong;
    if (broken.empty()) broken = check.wrong_hook();
    if (broken.empty()) broken = check.wrong_adding();
    const std::string drawn = seed == 0 ? "" : ", at parameters that the check has drawn";
    for (const std::size_t some : parts) {
      ++places;
      const std::string smaller =
          some == rows ? "" : fmt::format(", with {} of {} rows", some, rows);
      Check part = check.first_rows(some);
      if (std::string wrong = part.compare_all(evidence, smaller + drawn); !wrong.empty())
        return wrong;
    }
  }
  std::size_t numbers = 0;
  std::vector<std::string> zero;
  for (std::size_t p = 0; p < evidence.size(); ++p) {
    // A kink may look smooth once, but hardly twice in one parameter.
    if (evidence[p].wrong > 1) return evidence[p].first;
    const std::string& name = check.model.parameters()[p].name;
    if (evidence[p].right == 0) {
      return name + ": there is nothing to compare with: each change of it makes the loss jump";
    }
    if (evidence[p].is_zero) zero.push_back(name);
    numbers += std::min(own[p].size(), kElements);
  }
  if (compared != nullptr && broken.empty()) {
    *compared =
        fmt::format("{} of {} numbers, at {} places", numbers, check.model.count(), places);
    if (!zero.empty()) *compared += "; all that was compared is 0 in " + join(zero, ", ");
  }
  return broken;
}

}  // namespace

std::string wrong_gradient(Module& model, const Tensor& input,
                           std::span<const std::int32_t> targets, std::string* compared) {
  const Stream stream(Device{});
  // Puts back what was there, even if the model throws.
  struct Before {
    Module& model;
    Numbers values, gradients;
    ~Before() {
      put_back(values, model, &Parameter::value);
      put_back(gradients, model, &Parameter::grad);
    }
  } const before{model, numbers_of(model, &Parameter::value),
                 numbers_of(model, &Parameter::grad)};
  Check check{model, input, targets, stream};
  return first_wrong(check, before.values, compared);
}

}  // namespace dist
