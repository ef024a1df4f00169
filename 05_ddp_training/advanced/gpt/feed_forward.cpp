#include "05_ddp_training/advanced/gpt/feed_forward.hpp"

#include "05_ddp_training/advanced/gpt/exp.hpp"
#include "05_ddp_training/model/parallel_for.hpp"

namespace dist::gpt {
namespace {

// y = x / 2 (1 + tanh(u / 2)) = x gate, where gate = 1 / (1 + exp(-u)) and
// u = sqrt(8 / pi) (x + 0.044715 x^3). An index is an element.
struct Gelu {
  static constexpr float kRoot = 1.5957691216F, kCubic = 0.044715F;
  const float* x;
  float* y;
  DIST_HOST_DEVICE static float gate(float v) {
    return 1.0F / (1.0F + exp_of(-kRoot * v * std::fma(kCubic * v, v, 1.0F)));
  }
  DIST_HOST_DEVICE void operator()(std::size_t i) const { y[i] = x[i] * gate(x[i]); }
};

// In place, from the gradient of y to that of x. The slope of gate is gate (1 - gate), times
// that of u.
struct GeluBackward {
  const float* x;
  float* grad;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float v = x[i], gate = Gelu::gate(v);
    const float slope_of_u = Gelu::kRoot * std::fma(3.0F * Gelu::kCubic * v, v, 1.0F);
    grad[i] *= gate + v * gate * (1.0F - gate) * slope_of_u;
  }
};

}  // namespace

Tensor FeedForward::forward(const Tensor& x, const Pass& pass) {
  hidden_ = up_.forward(x, pass);
  const Tensor gelu = pass.make(hidden_.shape());
  parallel_for(pass.stream, gelu.numel(), Gelu{hidden_.data(), gelu.data()});
  return down_.forward(gelu, pass);
}

Tensor FeedForward::backward(const Tensor& grad_y, const Pass& pass) {
  const Tensor grad = down_.backward(grad_y, pass);
  parallel_for(pass.stream, grad.numel(), GeluBackward{hidden_.data(), grad.data()});
  return up_.backward(grad, pass);
}

}  // namespace dist::gpt
