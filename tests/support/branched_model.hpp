// A model with all that makes a backward difficult to write and to check: a layer that is used
// twice, kinks, a LayerNorm, and a residual branch whose last weight may begin at 0.
#pragma once

#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dist::test {

enum class Activation { relu, gelu, tanh };

// Mistakes in backward.
enum class Mistake {
  none,
  second_use_overwrites,  // the shared layer's first use
  norm_without_mean,
  norm_without_mean_of_product,
  last_gain_forgotten,  // the last element of one gradient
  first_shift_doubled,  // the first element of one gradient
  no_residual,
  no_slope,       // of the branch's activation
  other_slope,    // that of another activation, in the branch
  mean_of_rows,   // a bias's gradient, instead of their sum
  branch_halved,  // what comes back through the branch
};

// With u = act(x1 S^T + s) + act(x2 S^T + s) of the halves x1, x2 of a row, and n =
// LayerNorm(u):
//   logits = (n + act(n U^T + p) D^T) H^T
class BranchedModel : public Module {
 public:
  struct Options {
    Activation activation = Activation::relu;
    bool zero_branch = false;  // D is 0
    bool norm = true;
    Mistake mistake = Mistake::none;
  };
  static constexpr std::size_t kHalf = 12, kWidth = 10, kHidden = 14, kClasses = 5;

  BranchedModel(Options options, Generator& generator) : options_(options) {
    for (const auto& [name, shape] :
         std::vector<ParameterShape>{{"shared.weight", {kWidth, kHalf}},
                                     {"shared.bias", {kWidth}},
                                     {"norm.weight", {kWidth}},
                                     {"norm.bias", {kWidth}},
                                     {"up.weight", {kHidden, kWidth}},
                                     {"up.bias", {kHidden}},
                                     {"down.weight", {kWidth, kHidden}},
                                     {"head.weight", {kClasses, kWidth}}}) {
      add_parameter(name, shape, Device{});
    }
    for (const std::size_t p : {kShared, kUp, kDown, kHead}) {
      const Tensor& weight = parameters_[p].value;
      const double width = 1 / std::sqrt(static_cast<double>(weight.dim(1)));
      fill_uniform(weight.span(), -width, width, generator);
      if (p == kDown && options.zero_branch) std::ranges::fill(weight.span(), 0.0F);
    }
    for (const std::size_t p : {kShared + 1, kUp + 1}) {
      fill_uniform(parameters_[p].value.span(), -0.1, 0.1, generator);
    }
    std::ranges::fill(parameters_[kGain].value.span(), 1.0F);
  }

  Tensor forward(const Tensor& input, const Stream& stream) override {
    const std::size_t rows = input.dim(0);
    sums_ = matrix(rows, kWidth);
    for (const std::size_t half : {0, 1}) {
      Use& use = uses_.at(half);
      use.input = matrix(rows, kHalf);
      for (std::size_t r = 0; r < rows; ++r) {
        std::copy_n(&input.span()[(2 * r + half) * kHalf], kHalf, &use.input.span()[r * kHalf]);
      }
      use.before = affine(stream, use.input, kShared);
      for (std::size_t i = 0; i < sums_.numel(); ++i) {
        sums_.span()[i] += value(use.before.span()[i], options_.activation);
      }
    }
    normed_ = matrix(rows, kWidth), standard_ = matrix(rows, kWidth), deviation_.clear();
    for (std::size_t r = 0; r < rows; ++r) normalize(r);
    before_ = affine(stream, normed_, kUp);
    hidden_ = matrix(rows, kHidden);
    std::ranges::transform(before_.span(), hidden_.span().begin(),
                           [&](float x) { return value(x, options_.activation); });
    last_ = matrix(rows, kWidth);
    std::ranges::copy(normed_.span(), last_.span().begin());
    gemm(stream, Transpose::no, Transpose::yes, hidden_, parameters_[kDown].value, 1, last_);
    const Tensor logits = matrix(rows, kClasses);
    gemm(stream, Transpose::no, Transpose::yes, last_, parameters_[kHead].value, 0, logits);
    return logits;
  }

  void backward(const Tensor& grad, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    const bool add = accumulate == Accumulate::yes;
    const std::size_t rows = grad.dim(0);
    const auto is = [&](Mistake mistake) { return options_.mistake == mistake; };
    const Tensor d_last = matrix(rows, kWidth), d_hidden = matrix(rows, kHidden);
    gemm(stream, Transpose::yes, Transpose::no, grad, last_, add, parameters_[kHead].grad);
    gemm(stream, Transpose::no, Transpose::no, grad, parameters_[kHead].value, 0, d_last);
    gemm(stream, Transpose::yes, Transpose::no, d_last, hidden_, add, parameters_[kDown].grad);
    gemm(stream, Transpose::no, Transpose::no, d_last, parameters_[kDown].value, 0, d_hidden);
    for (std::size_t i = 0; i < d_hidden.numel(); ++i) {
      const Activation wrong =
          options_.activation == Activation::relu ? Activation::gelu : Activation::relu;
      if (!is(Mistake::no_slope)) {
        d_hidden.span()[i] *=
            slope(before_.span()[i], is(Mistake::other_slope) ? wrong : options_.activation);
      }
      if (is(Mistake::branch_halved)) d_hidden.span()[i] *= 0.5F;
    }
    gemm(stream, Transpose::yes, Transpose::no, d_hidden, normed_, add, parameters_[kUp].grad);
    add_rows(d_hidden, add, parameters_[kUp + 1].grad,
             is(Mistake::mean_of_rows) ? 1.0F / static_cast<float>(rows) : 1.0F);
    const Tensor d_normed = matrix(rows, kWidth);
    if (!is(Mistake::no_residual)) std::ranges::copy(d_last.span(), d_normed.span().begin());
    gemm(stream, Transpose::no, Transpose::no, d_hidden, parameters_[kUp].value, 1, d_normed);
    const Tensor d_sums = normalize_backward(d_normed, add);
    for (const std::size_t half : {0, 1}) {
      const Use& use = uses_.at(half);
      const Tensor d_use = matrix(rows, kWidth);
      for (std::size_t i = 0; i < d_use.numel(); ++i) {
        d_use.span()[i] = d_sums.span()[i] * slope(use.before.span()[i], options_.activation);
      }
      const bool adds = add || (half == 1 && !is(Mistake::second_use_overwrites));
      gemm(stream, Transpose::yes, Transpose::no, d_use, use.input, adds,
           parameters_[kShared].grad);
      add_rows(d_use, adds, parameters_[kShared + 1].grad);
    }
    for (std::size_t p = parameters_.size(); ready && p-- > 0;) ready(p);
  }

 private:
  enum : std::size_t { kShared = 0, kGain = 2, kShift = 3, kUp = 4, kDown = 6, kHead = 7 };

  static Tensor matrix(std::size_t rows, std::size_t columns) {
    return Tensor({rows, columns}, Device{});
  }
  // The weight and the bias after it.
  Tensor affine(const Stream& stream, const Tensor& x, std::size_t weight) const {
    const Tensor& bias = parameters_[weight + 1].value;
    const Tensor y = matrix(x.dim(0), bias.numel());
    for (std::size_t i = 0; i < y.numel(); ++i) y.span()[i] = bias.span()[i % bias.numel()];
    gemm(stream, Transpose::no, Transpose::yes, x, parameters_[weight].value, 1, y);
    return y;
  }
  static void add_rows(const Tensor& x, bool add, const Tensor& sums, float factor = 1) {
    if (!add) std::ranges::fill(sums.span(), 0.0F);
    for (std::size_t i = 0; i < x.numel(); ++i) {
      sums.span()[i % sums.numel()] += factor * x.span()[i];
    }
  }
  static float value(float x, Activation activation) {
    if (activation == Activation::relu) return std::max(x, 0.0F);
    if (activation == Activation::tanh) return std::tanh(x);
    return 0.5F * x * (1 + std::erf(x * std::sqrt(0.5F)));
  }
  static float slope(float x, Activation activation) {
    if (activation == Activation::relu) return x > 0 ? 1.0F : 0.0F;
    if (activation == Activation::tanh) return 1 - std::tanh(x) * std::tanh(x);
    constexpr float kDensity = 0.398942280F;  // of the normal distribution, at 0
    return 0.5F * (1 + std::erf(x * std::sqrt(0.5F))) + x * kDensity * std::exp(-x * x / 2);
  }

  void normalize(std::size_t r) {
    const auto row = sums_.span().subspan(r * kWidth, kWidth);
    float mean = 0, square = 0;
    for (const float x : row) mean += x / kWidth;
    for (const float x : row) square += (x - mean) * (x - mean) / kWidth;
    deviation_.push_back(options_.norm ? std::sqrt(square + 1e-5F) : 1.0F);
    for (std::size_t c = 0; c < kWidth; ++c) {
      const std::size_t i = r * kWidth + c;
      standard_.span()[i] = options_.norm ? (row[c] - mean) / deviation_[r] : row[c];
      normed_.span()[i] = standard_.span()[i] * parameters_[kGain].value.span()[c] +
                          parameters_[kShift].value.span()[c];
    }
  }
  Tensor normalize_backward(const Tensor& d_normed, bool add) {
    const std::span<float> d_gain = parameters_[kGain].grad.span();
    const Tensor product = matrix(d_normed.dim(0), kWidth),
                 d_sums = matrix(d_normed.dim(0), kWidth);
    std::ranges::transform(d_normed.span(), standard_.span(), product.span().begin(),
                           std::multiplies{});
    const float old = d_gain.back(), old_shift = parameters_[kShift].grad.span()[0];
    add_rows(product, add, parameters_[kGain].grad);
    add_rows(d_normed, add, parameters_[kShift].grad);
    if (options_.mistake == Mistake::last_gain_forgotten) d_gain.back() = add ? old : 0;
    if (options_.mistake == Mistake::first_shift_doubled) {
      float& shift = parameters_[kShift].grad.span()[0];
      shift = add ? old_shift + 2 * (shift - old_shift) : 2 * shift;
    }
    for (std::size_t r = 0; r < d_normed.dim(0); ++r) {
      float mean = 0, mean_of_product = 0;
      const auto d = [&](std::size_t c) {
        return d_normed.span()[r * kWidth + c] * parameters_[kGain].value.span()[c];
      };
      for (std::size_t c = 0; c < kWidth && options_.norm; ++c) {
        mean += d(c) / kWidth;
        mean_of_product += d(c) * standard_.span()[r * kWidth + c] / kWidth;
      }
      if (options_.mistake == Mistake::norm_without_mean) mean = 0;
      if (options_.mistake == Mistake::norm_without_mean_of_product) mean_of_product = 0;
      for (std::size_t c = 0; c < kWidth; ++c) {
        const std::size_t i = r * kWidth + c;
        d_sums.span()[i] =
            (d(c) - mean - standard_.span()[i] * mean_of_product) / deviation_[r];
      }
    }
    return d_sums;
  }

  struct Use {
    Tensor input, before;
  };
  Options options_;
  std::array<Use, 2> uses_;
  Tensor sums_, standard_, normed_, before_, hidden_, last_;
  std::vector<float> deviation_;
};

}  // namespace dist::test
