// What this file adds: a multi-layer perceptron, forward and backward: PyTorch's
// nn.Sequential(Linear, ReLU, Linear, ..., Linear), with the same names and initial numbers.
// It knows nothing of ranks. Data parallelism is added from outside
// (distributed_data_parallel).
#pragma once

#include "02_broadcast/random.hpp"
#include "common/tensor.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dist {

struct Parameter {
  std::string name;  // PyTorch's: "0.weight", "0.bias", "2.weight", ...; 1 is the ReLU
  Tensor value;
  Tensor grad;  // of the same shape; may be a window on a message (distributed_data_parallel)
};

// What the parameters of an Mlp of these widths are called, and their shapes, in registration
// order.
struct ParameterShape {
  std::string name;
  Shape shape;
};
std::vector<ParameterShape> parameter_shapes(const std::vector<std::size_t>& widths);

// Told, during backward, that the gradient of parameters()[index] has been queued.
using GradReadyHook = std::function<void(std::size_t index)>;

// Whether backward adds to the gradients that are there or replaces them.
enum class Accumulate { no, yes };

class Mlp {
 public:
  // Layers of these widths: {784, 512, 10} is Linear(784, 512), ReLU, Linear(512, 10). Draws
  // the initial weights from `generator` as PyTorch would. Throws Error with fewer than two
  // widths.
  Mlp(std::vector<std::size_t> widths, Generator& generator, const Stream& stream);

  // input (rows, widths.front()) -> logits (rows, widths.back()). Both `input` and the result
  // must stay as they are until backward is done.
  Tensor forward(const Tensor& input, const Stream& stream);

  // Writes every parameter's grad, given grad_logits (rows, widths.back()), the loss's gradient
  // with respect to what the last forward returned. The last layer's gradients are finished
  // first.
  void backward(const Tensor& grad_logits, const Stream& stream,
                Accumulate accumulate = Accumulate::no, const GradReadyHook& ready = {});

  // In registration order, each layer's weight before its bias.
  std::span<Parameter> parameters() { return parameters_; }
  std::span<const Parameter> parameters() const { return parameters_; }

  // Of what forward keeps for backward and what backward hands down: it grows with the batch,
  // and stays as large as the largest batch needed it.
  std::size_t activation_bytes() const;

 private:
  std::size_t layers() const { return widths_.size() - 1; }
  void make_room(std::size_t rows, Device device);

  std::vector<std::size_t> widths_;
  std::vector<Parameter> parameters_;
  // Kept from step to step; a smaller batch uses their first rows.
  std::vector<Tensor> outputs_;       // outputs_[l]: (rows, widths[l + 1]), after bias and ReLU
  std::vector<Tensor> output_grads_;  // the same shapes
  std::vector<Tensor> inputs_;        // what each layer read in the last forward
};

}  // namespace dist
