// What this file adds: the second half of a block: two linear layers, which see one token at a
// time, and GELU between them (Hendrycks and Gimpel, 2016; nn.GELU(approximate="tanh")).
#pragma once

#include "05_ddp_training/advanced/gpt/layer.hpp"

namespace dist::gpt {

class FeedForward {
 public:
  FeedForward(Module& model, const std::string& name, std::size_t width, Device device)
      : up_(model, name + ".c_fc", width, 4 * width, device),
        down_(model, name + ".c_proj", 4 * width, width, device) {}

  // y = down(gelu(up(x)))
  Tensor forward(const Tensor& x, const Pass& pass);
  // Returns the gradient of x.
  Tensor backward(const Tensor& grad_y, const Pass& pass);

 private:
  Linear up_, down_;
  Tensor hidden_;  // up(x)
};

}  // namespace dist::gpt
