// Forward and backward of a chain of linear layers, implemented as matrix products.
// Builds on: 05_ddp_training/model/linear, the matrix products of one layer.
// Look at: the shapes, and which layer's gradients are finished first.
#include "05_ddp_training/model/mlp.hpp"

#include "common/check.hpp"

#include <algorithm>

namespace dist {

std::vector<ParameterShape> parameter_shapes(const std::vector<std::size_t>& widths) {
  std::vector<ParameterShape> shapes;
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    // Linear and ReLU alternate in the nn.Sequential, so layer l is module 2 l.
    const std::string module = std::to_string(2 * layer);
    shapes.push_back({module + ".weight", {widths[layer + 1], widths[layer]}});
    shapes.push_back({module + ".bias", {widths[layer + 1]}});
  }
  return shapes;
}

std::vector<std::size_t> widths_of(std::span<const ParameterShape> parameters) {
  const auto shape_of = [&](const std::string& name) {
    const auto found = std::ranges::find(parameters, name, &ParameterShape::name);
    return found == parameters.end() ? Shape{} : found->shape;
  };
  std::vector<std::size_t> widths;
  for (std::size_t layer = 0; 2 * layer < parameters.size(); ++layer) {
    const Shape weight = shape_of(std::to_string(2 * layer) + ".weight");
    if (weight.size() != 2) return {};
    if (layer == 0) widths.push_back(weight[1]);
    widths.push_back(weight[0]);
  }
  const std::vector<ParameterShape> all = parameter_shapes(widths);
  const bool fits = all.size() == parameters.size() &&
                    std::ranges::all_of(all, [&](const ParameterShape& parameter) {
                      return shape_of(parameter.name) == parameter.shape;
                    });
  return fits ? widths : std::vector<std::size_t>{};
}

Mlp::Mlp(std::vector<std::size_t> widths, Generator& generator, const Stream& stream,
         Precision precision)
    : widths_(std::move(widths)), operands_(precision) {
  if (widths_.size() < 2) throw Error("an Mlp needs at least an input and an output width");
  for (const auto& [name, shape] : parameter_shapes(widths_)) {
    add_parameter(name, shape, stream.device());
  }
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const Parameter& weight = parameters_[2 * layer];
    const Parameter& bias = parameters_[2 * layer + 1];
    const Tensor initial_weight(weight.value.shape(), Device{});
    const Tensor initial_bias(bias.value.shape(), Device{});
    init_linear(initial_weight.span(), initial_bias.span(), widths_[layer], generator);
    copy(stream, weight.value, initial_weight);
    copy(stream, bias.value, initial_bias);
    stream.synchronize();  // until then, the copies read the host's tensors
  }
}

void Mlp::make_room(std::size_t rows, Device device) {
  if (!activations_.empty() && activations_[0].output.dim(0) >= rows) return;
  if (!device.is_cpu()) outgrown_.push_back(std::move(activations_));
  activations_.clear();
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const Shape shape{rows, widths_[layer + 1]};
    const std::size_t relus = layer + 1 < layers() ? widths_[layer + 1] : 0;
    activations_.push_back(
        {Tensor(shape, device), Tensor(shape, device), ReluMask(rows, relus, device)});
  }
}

std::size_t Mlp::activation_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [output, grad, mask] : activations_) {
    bytes += output.size_bytes() + grad.size_bytes() + mask.bits.size_bytes();
  }
  return bytes;
}

// The places of the operands: each layer's input, the gradient that backward is at, and each
// layer's weight. With a hook, which may fetch each weight just in time, all weights share one
// place, or their copies would be the whole model again.
Operand Mlp::weight(std::size_t layer, const Stream& stream) {
  const std::size_t place = layers() + 1 + (before_layer_ ? 0 : layer);
  return operands_.of(stream, place, parameters_[2 * layer].value);
}

Tensor Mlp::forward(const Tensor& input, const Stream& stream) {
  const std::size_t rows = input.dim(0);
  make_room(rows, stream.device());
  inputs_.clear();
  weights_.clear();
  // Does not own the input. Otherwise the model could become its last owner and free it in a
  // later forward: in a captured step (StepGraph), where nothing may be freed.
  Tensor x(nullptr, input.data(), input.shape(), input.device());
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    if (before_layer_) before_layer_(layer);
    inputs_.push_back(operands_.of(stream, layer, x));
    weights_.push_back(weight(layer, stream));
    const Tensor& bias = parameters_[2 * layer + 1].value;
    const Tensor output = activations_[layer].output.rows(rows);
    // (rows, in) * (out, in)^T -> (rows, out)
    ReluMask* const relu = layer + 1 < layers() ? &activations_[layer].mask : nullptr;
    linear(stream, inputs_[layer], weights_[layer], bias, output, relu);
    x = output;
  }
  return x;
}

void Mlp::backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                   const GradReadyHook& ready) {
  const bool add = accumulate == Accumulate::yes;
  const std::size_t rows = grad_logits.dim(0);
  Tensor grad = grad_logits;
  for (std::size_t layer = layers(); layer-- > 0;) {  // [7] from the last layer to the first
    if (before_layer_) before_layer_(layer);
    const Operand operand = operands_.of(stream, layers(), grad);
    // (rows, out)^T * (rows, in) -> (out, in)
    linear_backward(stream, operand, inputs_[layer], add, parameters_[2 * layer].grad,
                    parameters_[2 * layer + 1].grad);
    if (ready) {
      ready(2 * layer + 1);
      ready(2 * layer);
    }
    if (layer == 0) break;  // the gradient with respect to the data is not needed
    if (before_layer_) weights_[layer] = weight(layer, stream);
    const Tensor grad_input = activations_[layer - 1].grad.rows(rows);
    // (rows, out) * (out, in) -> (rows, in)
    linear_backward_to_relu(stream, operand, weights_[layer], inputs_[layer].matrix,
                            activations_[layer - 1].mask, grad_input);
    grad = grad_input;
  }
}

}  // namespace dist
