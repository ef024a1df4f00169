// What this file adds: layer normalisation (Ba et al., 2016; torch.nn.LayerNorm).
// Look at: which two parts a row's gradient loses (layer_norm.cpp).
#pragma once

#include "05_ddp_training/advanced/gpt/layer.hpp"

namespace dist::gpt {

// Of each row of x, which is (rows, width):
//   normal = (x - mean) / sqrt(variance + 1e-5)        y = normal weight + bias
class LayerNorm {
 public:
  LayerNorm(Module& model, const std::string& name, std::size_t width, Device device)
      : weight_(model.add_parameter(name + ".weight", {width}, device)),
        bias_(model.add_parameter(name + ".bias", {width}, device)) {}

  // Does not read x later, so it may be added to in place.
  Tensor forward(const Tensor& x, const Pass& pass);
  // Returns the gradient of x.
  Tensor backward(const Tensor& grad_y, const Pass& pass);

 private:
  std::size_t weight_, bias_;
  Tensor normal_, scale_;  // and of each row 1 / sqrt(variance + 1e-5)
};

}  // namespace dist::gpt
