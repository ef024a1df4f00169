// What this file adds: what the layers of a GPT share: the pass that they are in, the memory of
// its tensors, and the linear layer.
// Builds on: linear (the products of a layer), Module (what data parallelism needs to know).
// Look at: TensorStack, because of which a second step allocates no tensor's memory.
#pragma once

#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/module.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist::gpt {

// The memory of activations and gradients, as a stack: the n-th tensor of every step has the
// same memory, which grows if a batch is larger.
class TensorStack {
 public:
  // Its elements may hold anything.
  Tensor make(const Shape& shape, const Stream& stream) {
    if (used_ == tensors_.size()) tensors_.emplace_back();
    Tensor& tensor = tensors_[used_++];
    if (tensor.numel() < numel(shape)) tensor = Tensor({numel(shape)}, stream.device());
    return tensor.narrow(0, numel(shape)).view(shape);
  }
  std::size_t used() const { return used_; }  // tensors
  // Forgets all but the first `used` tensors: the next ones take their memory.
  void release(std::size_t used) { used_ = used; }
  std::size_t size_bytes() const {
    std::size_t bytes = 0;
    for (const Tensor& tensor : tensors_) bytes += tensor.size_bytes();
    return bytes;
  }

 private:
  std::vector<Tensor> tensors_;
  std::size_t used_ = 0;
};

// A forward or backward pass of a model, as its layers see it. The rows of x, y and their
// gradients are tokens: those of the first sequence, then those of the second, ...
struct Pass {
  const Stream& stream;
  std::span<Parameter> parameters;
  TensorStack& memory;
  std::size_t length;  // of each sequence, in tokens
  // For backward: whether it adds to the parameters' gradients, and whom to tell about them.
  bool add = false;
  GradReadyHook ready{};

  Tensor make(const Shape& shape) const { return memory.make(shape, stream); }
  // A layer knows its parameters by their places.
  const Tensor& value(std::size_t parameter) const { return parameters[parameter].value; }
  const Tensor& grad(std::size_t parameter) const { return parameters[parameter].grad; }
  // Nothing is added any more to the gradients of these two, which were registered in this
  // order: buckets are filled in the reverse one.
  void complete(std::size_t first, std::size_t second) const {
    if (!ready) return;
    ready(second);
    ready(first);
  }
};

// y = x weight^T + bias (torch.nn.Linear), where x is (rows, in) and y is (rows, out).
class Linear {
 public:
  Linear(Module& model, const std::string& name, std::size_t in, std::size_t out, Device device)
      : weight_(model.add_parameter(name + ".weight", {out, in}, device)),
        bias_(model.add_parameter(name + ".bias", {out}, device)) {}

  Tensor forward(const Tensor& x, const Pass& pass) {
    x_ = x;
    const Tensor y = pass.make({x.dim(0), pass.value(bias_).numel()});
    linear(pass.stream, x, pass.value(weight_), pass.value(bias_), y);
    return y;
  }
  // Returns the gradient of x.
  Tensor backward(const Tensor& grad_y, const Pass& pass) {
    linear_backward(pass.stream, grad_y, x_, pass.add, pass.grad(weight_), pass.grad(bias_));
    pass.complete(weight_, bias_);
    const Tensor grad_x = pass.make(x_.shape());
    gemm(pass.stream, Transpose::no, Transpose::no, grad_y, pass.value(weight_), 0, grad_x);
    return grad_x;
  }

 private:
  std::size_t weight_, bias_;
  Tensor x_;
};

}  // namespace dist::gpt
