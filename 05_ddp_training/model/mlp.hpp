// What this file adds: a multi-layer perceptron with forward and backward. It corresponds to
// PyTorch's nn.Sequential(Linear, ReLU, Linear, ..., Linear), with the same names and initial
// numbers. The model knows nothing about ranks: data parallelism is added from outside
// (distributed_data_parallel).
#pragma once

#include "02_broadcast/random.hpp"
#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

struct Parameter {
  std::string name;  // PyTorch's: "0.weight", "0.bias", "2.weight", ...; 1 is the ReLU
  Tensor value;
  Tensor grad;  // of the same shape; may be a view of a bucket (distributed_data_parallel)
};

// The names and shapes of the parameters of an Mlp of these widths, in registration order.
struct ParameterShape {
  std::string name;
  Shape shape;
};
std::vector<ParameterShape> parameter_shapes(const std::vector<std::size_t>& widths);

// Called during backward, when the gradient of parameters()[index] has been queued.
using GradReadyHook = std::function<void(std::size_t index)>;

// Whether backward adds to the existing gradients or replaces them.
enum class Accumulate { no, yes };

class Mlp {
 public:
  // Layers of these widths: {784, 512, 10} is Linear(784, 512), ReLU, Linear(512, 10). Draws
  // the initial weights from `generator` as PyTorch would. `precision` is that of the matrix
  // products. Throws Error for fewer than two widths.
  Mlp(std::vector<std::size_t> widths, Generator& generator, const Stream& stream,
      Precision precision = Precision::fp32);

  // Turns `input` of shape (rows, widths.front()) into logits of shape (rows, widths.back()).
  // Both must stay, unchanged, until backward is done: the model does not own its input.
  Tensor forward(const Tensor& input, const Stream& stream);

  // Writes every parameter's grad, starting with the last layer's. `grad_logits` is the
  // gradient of the loss with respect to the logits of the last forward.
  void backward(const Tensor& grad_logits, const Stream& stream,
                Accumulate accumulate = Accumulate::no, const GradReadyHook& ready = {});

  // From now on, forward and backward call `hook` before they use a layer's parameters and
  // gradients, for example to fetch them (sharding/).
  void before_layer(std::function<void(std::size_t layer)> hook) {
    before_layer_ = std::move(hook);
  }

  // The parameters in registration order, each layer's weight before its bias.
  std::span<Parameter> parameters() { return parameters_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  // How many numbers they have together.
  std::size_t count() const;

  // The size of the memory that holds the values kept by forward and the gradients that
  // backward passes from layer to layer. The largest batch so far determines this size.
  std::size_t activation_bytes() const;
  // The size of the rounded copies that products read with Precision::bf16.
  std::size_t copy_bytes() const { return operands_.size_bytes(); }

 private:
  std::size_t layers() const { return widths_.size() - 1; }
  void make_room(std::size_t rows, Device device);
  Operand weight(std::size_t layer, const Stream& stream);

  std::vector<std::size_t> widths_;
  std::vector<Parameter> parameters_;
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
