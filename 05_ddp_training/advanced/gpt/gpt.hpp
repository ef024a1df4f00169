// What this file adds: a GPT (Radford et al., 2019), which predicts each next token of a text.
// Its parameters have the names of Hugging Face's GPT-2, and the shapes of torch.nn.Linear.
// Builds on: Module, all that data parallelism knows of a model.
// Look at: backward, which is forward read from its end; both its first and its last layer
// write the gradient of wte.weight.
#pragma once

#include "05_ddp_training/advanced/gpt/block.hpp"
#include "05_ddp_training/advanced/gpt/embedding.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dist {

struct GptShape {
  std::size_t vocabulary = 0;  // kinds of tokens
  std::size_t context = 64;    // the longest sequence
  std::size_t width = 64;      // of a token's vector
  std::size_t heads = 4;       // of each attention; divides the width
  std::size_t blocks = 2;
};

class Gpt : public Module {
 public:
  // Draws the first numbers as nanoGPT does. Weight decay is for matrices only.
  Gpt(const GptShape& shape, Generator& generator, const Stream& stream)
      : embedding_(*this, shape.vocabulary, shape.context, shape.width, stream.device()),
        blocks_(make_blocks(shape, stream.device())),
        norm_(*this, "ln_f", shape.width, stream.device()) {
    // The more blocks, the smaller the numbers drawn for what they add to x.
    const double small = 0.02 / std::sqrt(2.0 * static_cast<double>(shape.blocks));
    for (Parameter& parameter : parameters_) {
      const Tensor first(parameter.value.shape(), Device{});
      parameter.decays = first.shape().size() == 2;
      if (parameter.decays) {
        fill_normal(first.span(), generator);
        const double deviation = parameter.name.ends_with("c_proj.weight") ? small : 0.02;
        for (float& x : first.span()) x *= static_cast<float>(deviation);
      } else if (parameter.name.ends_with("weight")) {
        std::ranges::fill(first.span(), 1.0F);  // a LayerNorm's
      }
      copy(stream, parameter.value, first);
      stream.synchronize();  // until then, the copy reads `first`
    }
  }

  // Turns `ids`, (sequences, length) whole numbers below `vocabulary`, into logits of the token
  // that follows each: (sequences * length, vocabulary).
  Tensor forward(const Tensor& ids, const Stream& stream) override {
    memory_.release(0);
    length_ = ids.dim(1);
    const gpt::Pass pass{stream, parameters(), memory_, length_};
    const Tensor x = embedding_.forward(ids, pass);
    for (gpt::Block& block : blocks_) block.forward(x, pass);
    return embedding_.logits(norm_.forward(x, pass), pass);
  }

  using Module::backward;
  void backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    const std::size_t used = memory_.used();
    const bool add = accumulate == Accumulate::yes;
    const gpt::Pass pass{stream, parameters(), memory_, length_, add, ready};
    const Tensor grad = norm_.backward(embedding_.logits_backward(grad_logits, pass), pass);
    for (std::size_t i = blocks_.size(); i-- > 0;) blocks_[i].backward(grad, pass);
    embedding_.backward(grad, pass);
    memory_.release(used);
  }

  std::size_t activation_bytes() const override { return memory_.size_bytes(); }

 private:
  std::vector<gpt::Block> make_blocks(const GptShape& shape, Device device) {
    std::vector<gpt::Block> blocks;
    for (std::size_t i = 0; i < shape.blocks; ++i) {
      blocks.emplace_back(*this, "h." + std::to_string(i), shape.width, shape.heads, device);
    }
    return blocks;
  }

  // The layers, in the order of forward, which is that of their parameters.
  gpt::Embedding embedding_;
  std::vector<gpt::Block> blocks_;
  gpt::LayerNorm norm_;
  gpt::TensorStack memory_;
  std::size_t length_ = 0;  // of the last forward's sequences
};

}  // namespace dist
