// What this file adds: causal self-attention with several heads (Vaswani et al., 2017), the one
// layer in which a token sees others: itself and those before it.
// Look at: AttendBackwardKey (attention.cpp), which must not write where another index does.
#pragma once

#include "05_ddp_training/advanced/gpt/layer.hpp"

namespace dist::gpt {

// Each head has a query, a key and a value of `size` numbers per token. For token t,
//   p[t] = softmax over u <= t of query[t] . key[u] / sqrt(size)
//   y[t] = sum over u <= t of p[t][u] value[u]
class Attention {
 public:
  // Throws Error unless `heads` divides `width` into sizes of at most 128.
  Attention(Module& model, const std::string& name, std::size_t width, std::size_t heads,
            Device device);

  Tensor forward(const Tensor& x, const Pass& pass);
  // Returns the gradient of x.
  Tensor backward(const Tensor& grad_y, const Pass& pass);

 private:
  std::size_t heads_, size_;  // width = heads x size
  Linear to_qkv_, projection_;
  Tensor qkv_;  // (rows, 3 x width): a token's queries of all heads, then keys, then values
  Tensor p_;    // (sequences, heads, length, length); what is above the diagonal is not read
};

}  // namespace dist::gpt
