#include "05_ddp_training/advanced/gpt/embedding.hpp"

#include "05_ddp_training/model/parallel_for.hpp"
#include "common/check.hpp"

namespace dist::gpt {
namespace {

// An index is a row.
struct LookUp {
  std::size_t length, width;
  const float *ids, *tokens, *positions;
  float* x;
  DIST_HOST_DEVICE void operator()(std::size_t r) const {
    const float* token = tokens + static_cast<std::size_t>(ids[r]) * width;
    const float* position = positions + r % length * width;
    for (std::size_t c = 0; c < width; ++c) x[r * width + c] = token[c] + position[c];
  }
};

// Rows with the same token, or in the same place, add to the same vector. So an index is not a
// row: it owns `block` columns of all vectors, and goes through all rows.
struct AddRows {
  std::size_t rows, length, context, width, block;
  const float *ids, *grad_x;
  float *grad_tokens, *grad_positions;
  bool add;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t begin = i * block, end = width < begin + block ? width : begin + block;
    for (std::size_t t = 0; !add && t < context; ++t) {
      for (std::size_t c = begin; c < end; ++c) grad_positions[t * width + c] = 0.0F;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      float* token = grad_tokens + static_cast<std::size_t>(ids[r]) * width;
      float* position = grad_positions + r % length * width;
      for (std::size_t c = begin; c < end; ++c) {
        token[c] += grad_x[r * width + c];
        position[c] += grad_x[r * width + c];
      }
    }
  }
};

}  // namespace

Tensor Embedding::forward(const Tensor& ids, const Pass& pass) {
  const std::size_t width = pass.value(tokens_).dim(1);
  if (pass.length > pass.value(positions_).dim(0)) {
    throw Error("a sequence is longer than the model's context");
  }
  // Does not own the input (Mlp::forward says why).
  ids_ = Tensor(nullptr, ids.data(), ids.shape(), ids.device());
  const Tensor x = pass.make({ids.numel(), width});
  parallel_for(pass.stream, ids.numel(),
               LookUp{pass.length, width, ids.data(), pass.value(tokens_).data(),
                      pass.value(positions_).data(), x.data()});
  return x;
}

void Embedding::backward(const Tensor& grad_x, const Pass& pass) {
  const std::size_t context = pass.value(positions_).dim(0), width = grad_x.dim(1);
  const std::size_t block = pass.stream.device().is_cpu() ? 64 : 1;
  parallel_for(
      pass.stream, blocks_of(width, block),
      AddRows{grad_x.dim(0), pass.length, context, width, block, ids_.data(), grad_x.data(),
              pass.grad(tokens_).data(), pass.grad(positions_).data(), pass.add});
  pass.complete(tokens_, positions_);
}

Tensor Embedding::logits(const Tensor& x, const Pass& pass) {
  last_x_ = x;
  const Tensor& table = pass.value(tokens_);
  const Tensor logits = pass.make({x.dim(0), table.dim(0)});
  gemm(pass.stream, Transpose::no, Transpose::yes, x, table, 0, logits);
  return logits;
}

Tensor Embedding::logits_backward(const Tensor& grad_logits, const Pass& pass) {
  gemm(pass.stream, Transpose::yes, Transpose::no, grad_logits, last_x_, pass.add ? 1.0F : 0.0F,
       pass.grad(tokens_));
  const Tensor grad_x = pass.make(last_x_.shape());
  gemm(pass.stream, Transpose::no, Transpose::no, grad_logits, pass.value(tokens_), 0, grad_x);
  return grad_x;
}

}  // namespace dist::gpt
