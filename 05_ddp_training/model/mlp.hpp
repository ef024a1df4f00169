// What this file adds: a multi-layer perceptron with forward and backward. It corresponds to
// PyTorch's nn.Sequential(Linear, ReLU, Linear, ..., Linear), with the same names and initial
// numbers.
// Builds on: module.hpp (what everybody else knows of a model).
#pragma once

#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/random.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// Those of the parameters of an Mlp of these widths, in registration order: each layer's weight
// before its bias. The names are PyTorch's: "0.weight", "0.bias", "2.weight", ...; 1 is the
// ReLU.
std::vector<ParameterShape> parameter_shapes(const std::vector<std::size_t>& widths);
// The widths of the Mlp with these parameters, in any order; empty if there is none.
std::vector<std::size_t> widths_of(std::span<const ParameterShape> parameters);

class Mlp : public Module {
 public:
  // Layers of these widths: {784, 512, 10} is Linear(784, 512), ReLU, Linear(512, 10). Draws
  // the initial weights from `generator` as PyTorch would. `precision` is that of the matrix
  // products. Throws Error for fewer than two widths.
  Mlp(std::vector<std::size_t> widths, Generator& generator, const Stream& stream,
      Precision precision = Precision::fp32);

  // Turns `input` of shape (rows, widths.front()) into logits of shape (rows, widths.back()).
  Tensor forward(const Tensor& input, const Stream& stream) override;

  // Starts with the last layer's gradients.
  using Module::backward;
  void backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override;

  // From now on, forward and backward call `hook` before they use a layer's parameters and
  // gradients, for example to fetch them (sharding/).
  void before_layer(std::function<void(std::size_t layer)> hook) {
    before_layer_ = std::move(hook);
  }

  std::size_t activation_bytes() const override;
  std::size_t copy_bytes() const override { return operands_.size_bytes(); }

 private:
  std::size_t layers() const { return widths_.size() - 1; }
  void make_room(std::size_t rows, Device device);
  Operand weight(std::size_t layer, const Stream& stream);

  std::vector<std::size_t> widths_;
  std::function<void(std::size_t layer)> before_layer_;
  // What a layer computes. It is kept from step to step; a smaller batch uses the first rows.
  struct Activations {
    Tensor output;  // (rows, out), after bias and ReLU
    Tensor grad;    // of the output
    ReluMask mask;  // empty after the last layer, which has no ReLU
  };
  std::vector<Activations> activations_;  // by layer
  // Captured steps (StepGraph) still use the memory of smaller batches.
  std::vector<std::vector<Activations>> outgrown_;
  Operands operands_;
  std::vector<Operand> inputs_, weights_;  // what each layer multiplied in the last forward
};

}  // namespace dist
