// What this file adds: the first layer, which turns tokens into vectors, and the last one,
// which compares vectors with the same table: a tied weight (Press and Wolf, 2017). Look at:
// backward, which adds the second half of the table's gradient.
#pragma once

#include "05_ddp_training/advanced/gpt/layer.hpp"

namespace dist::gpt {

class Embedding {
 public:
  // A vector of `width` numbers for each of `vocabulary` tokens, and for each of `context`
  // places in a sequence.
  Embedding(Module& model, std::size_t vocabulary, std::size_t context, std::size_t width,
            Device device)
      : tokens_(model.add_parameter("wte.weight", {vocabulary, width}, device)),
        positions_(model.add_parameter("wpe.weight", {context, width}, device)) {}

  // The first layer: x = table[ids] + places. From ids (sequences, length) to (rows, width).
  Tensor forward(const Tensor& ids, const Pass& pass);
  // Adds to the table's gradient what the first layer contributes. Only then is it complete.
  void backward(const Tensor& grad_x, const Pass& pass);

  // The last layer: logits = x table^T, where logits are (rows, vocabulary).
  Tensor logits(const Tensor& x, const Pass& pass);
  // Begins the table's gradient. Returns the gradient of x.
  Tensor logits_backward(const Tensor& grad_logits, const Pass& pass);

 private:
  std::size_t tokens_, positions_;
  Tensor ids_, last_x_;
};

}  // namespace dist::gpt
