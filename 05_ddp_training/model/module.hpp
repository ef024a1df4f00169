// What this file adds: all that data parallelism, an optimizer and a checkpoint know of a
// model: it has parameters, and says during backward when the gradient of each is complete. A
// model knows nothing about ranks: data parallelism is added from outside
// (distributed_data_parallel).
#pragma once

#include "common/tensor.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

struct Parameter {
  std::string name;  // PyTorch's, as in a state_dict
  Tensor value;
  Tensor grad;  // of the same shape; may be a view of a bucket (distributed_data_parallel)
  bool decays = true;  // whether weight decay applies to it (PyTorch: its group's weight_decay)
};

struct ParameterShape {
  std::string name;
  Shape shape;
};

// Called during backward, once per parameter, when the gradient of parameters()[index] has been
// queued and nothing will be added to it any more. A parameter that is used twice is complete
// only after its second use (break_it/tied_weight.cpp).
using GradReadyHook = std::function<void(std::size_t index)>;

// Whether backward adds to the existing gradients or replaces them.
enum class Accumulate { no, yes };

// torch.nn.Module, with a backward that one writes oneself.
class Module {
 public:
  virtual ~Module() = default;

  // Turns `input`, a row per sample, into logits, a row per prediction. Both must stay,
  // unchanged, until backward is done: the model does not own its input.
  virtual Tensor forward(const Tensor& input, const Stream& stream) = 0;

  // Writes every parameter's grad. `grad_logits` is the gradient of the loss with respect to
  // the logits of the last forward. Calls `ready`, if it is not empty.
  virtual void backward(const Tensor& grad_logits, const Stream& stream, Accumulate accumulate,
                        const GradReadyHook& ready) = 0;
  // The same if nobody waits for single gradients.
  void backward(const Tensor& grad_logits, const Stream& stream,
                Accumulate accumulate = Accumulate::no) {
    backward(grad_logits, stream, accumulate, {});
  }

  // The parameters in registration order. Their gradients should become ready in about the
  // reverse order: that is how buckets are filled.
  std::span<Parameter> parameters() { return parameters_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  // How many numbers they have together.
  std::size_t count() const {
    std::size_t count = 0;
    for (const Parameter& parameter : parameters_) count += parameter.value.numel();
    return count;
  }

  // Adds a parameter that is 0 everywhere. Returns its place in parameters(). Called while the
  // model is made, by itself or by one of its layers.
  std::size_t add_parameter(std::string name, const Shape& shape, Device device) {
    parameters_.push_back({std::move(name), Tensor(shape, device), Tensor(shape, device)});
    return parameters_.size() - 1;
  }

  // For the memory report. The size of the memory that holds the values kept by forward and the
  // gradients that backward passes from layer to layer. The largest batch so far determines it.
  virtual std::size_t activation_bytes() const { return 0; }
  // The size of the rounded copies that products read with Precision::bf16.
  virtual std::size_t copy_bytes() const { return 0; }

 protected:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  std::vector<Parameter> parameters_;
};

}  // namespace dist
