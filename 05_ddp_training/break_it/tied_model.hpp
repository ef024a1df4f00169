// A model that uses a parameter twice: the table of the characters is also the matrix of the
// output ("Using the Output Embedding to Improve Language Models", Press and Wolf, 2017). From
// three characters, it predicts the next (Bengio et al., 2003). In PyTorch:
//
//   x = (embedding.weight[ids] + position.weight).flatten(1)
//   logits = relu(hidden(x)) @ embedding.weight.T
#pragma once

#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <cstddef>

namespace dist {

class TiedModel : public Module {
 public:
  static constexpr std::size_t kContext = 3;  // characters
  // When backward says that the table's gradient is ready.
  enum class Ready { after_both_uses, at_the_first_use, at_both_uses };
  struct Options {
    std::size_t characters, width;
    bool table_is_last = false;  // in registration order
    Ready ready = Ready::after_both_uses;
  };

  // On the CPU only.
  TiedModel(const Options& options, Generator& generator, const Stream& stream)
      : options_(options), relu_(0, 0, stream.device()) {
    const std::size_t d = options.width;
    const Shape table{options.characters, d};
    if (!options.table_is_last) table_ = add_parameter("embedding.weight", table, Device{});
    position_ = add_parameter("position.weight", {kContext, d}, Device{});
    weight_ = add_parameter("hidden.weight", {d, kContext * d}, Device{});
    bias_ = add_parameter("hidden.bias", {d}, Device{});
    if (options.table_is_last) table_ = add_parameter("embedding.weight", table, Device{});
    fill_normal(value(table_).span(), generator);
    fill_normal(value(position_).span(), generator);
    init_linear(value(weight_).span(), value(bias_).span(), kContext * d, generator);
  }

  // `input` has the numbers of kContext characters per row.
  Tensor forward(const Tensor& input, const Stream& stream) override {
    const std::size_t rows = input.dim(0), d = options_.width;
    input_ = input;
    embedded_ = Tensor({rows, kContext * d}, Device{});
    hidden_ = Tensor({rows, d}, Device{});
    const Tensor logits({rows, options_.characters}, Device{});
    for (std::size_t i = 0; i < rows * kContext; ++i) {
      for (std::size_t c = 0; c < d; ++c) {
        embedded_.span()[i * d + c] = value(table_).span()[character(i) * d + c] +
                                      value(position_).span()[i % kContext * d + c];
      }
    }
    linear(stream, embedded_, value(weight_), value(bias_), hidden_, &relu_);
    gemm(stream, Transpose::no, Transpose::yes, hidden_, value(table_), 0, logits);
    return logits;
  }

  using Module::backward;
  void backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    const bool add = accumulate == Accumulate::yes;
    const auto is_ready = [&](std::size_t parameter) {
      if (ready) ready(parameter);
    };
    // Backward meets the table's last use first: its gradient is now the product's half.
    gemm(stream, Transpose::yes, Transpose::no, grad_logits, hidden_, add ? 1 : 0,
         grad(table_));
    if (options_.ready != Ready::after_both_uses) is_ready(table_);

    const Tensor grad_hidden(hidden_.shape(), Device{});
    linear_backward_to_relu(stream, grad_logits, value(table_), hidden_, relu_, grad_hidden);
    linear_backward(stream, grad_hidden, embedded_, add, grad(weight_), grad(bias_));
    is_ready(bias_);
    is_ready(weight_);

    // The other half: each character's row gets what comes back to the places where it was.
    const Tensor grad_embedded(embedded_.shape(), Device{});
    gemm(stream, Transpose::no, Transpose::no, grad_hidden, value(weight_), 0, grad_embedded);
    if (!add) std::ranges::fill(grad(position_).span(), 0.0F);
    const std::size_t d = options_.width;
    for (std::size_t i = 0; i < grad_embedded.dim(0) * kContext; ++i) {
      for (std::size_t c = 0; c < d; ++c) {
        const float each = grad_embedded.span()[i * d + c];
        grad(table_).span()[character(i) * d + c] += each;
        grad(position_).span()[i % kContext * d + c] += each;
      }
    }
    is_ready(position_);
    if (options_.ready != Ready::at_the_first_use) is_ready(table_);
  }

 private:
  const Tensor& value(std::size_t parameter) const { return parameters_[parameter].value; }
  const Tensor& grad(std::size_t parameter) const { return parameters_[parameter].grad; }
  std::size_t character(std::size_t i) const {
    return static_cast<std::size_t>(input_.span()[i]);
  }

  Options options_;
  std::size_t table_ = 0, position_ = 0, weight_ = 0, bias_ = 0;  // in parameters_
  ReluMask relu_;
  Tensor input_, embedded_, hidden_;  // of the last forward
};

}  // namespace dist
