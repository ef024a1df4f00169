// What this file adds: a block of a GPT: attention, then a feed-forward layer. Each reads a
// normalised x, and what it computes is added to x.
#pragma once

#include "05_ddp_training/advanced/gpt/attention.hpp"
#include "05_ddp_training/advanced/gpt/feed_forward.hpp"
#include "05_ddp_training/advanced/gpt/layer_norm.hpp"
#include "05_ddp_training/model/kernels.hpp"

namespace dist::gpt {

class Block {
 public:
  Block(Module& model, const std::string& name, std::size_t width, std::size_t heads,
        Device device)
      : norm_1_(model, name + ".ln_1", width, device),
        attention_(model, name + ".attn", width, heads, device),
        norm_2_(model, name + ".ln_2", width, device),
        feed_forward_(model, name + ".mlp", width, device) {}

  // In place: x += attention(norm(x)), then x += feed_forward(norm(x)).
  void forward(const Tensor& x, const Pass& pass) {
    add(pass, x, attention_.forward(norm_1_.forward(x, pass), pass));
    add(pass, x, feed_forward_.forward(norm_2_.forward(x, pass), pass));
  }
  // In place: from the gradient of the new x to that of the old one. The gradient of a sum goes
  // to both of its terms: around a layer, and through it.
  void backward(const Tensor& grad, const Pass& pass) {
    const std::size_t used = pass.memory.used();
    add(pass, grad, norm_2_.backward(feed_forward_.backward(grad, pass), pass));
    add(pass, grad, norm_1_.backward(attention_.backward(grad, pass), pass));
    pass.memory.release(used);  // the block before this one needs only `grad`
  }

 private:
  static void add(const Pass& pass, const Tensor& x, const Tensor& y) {
    add_to(pass.stream, x.numel(), y.data(), x.data());
  }

  LayerNorm norm_1_;
  Attention attention_;
  LayerNorm norm_2_;
  FeedForward feed_forward_;
};

}  // namespace dist::gpt
