// The arithmetic of a training step that is no matrix product, one function per operation.
//
// Every function queues its work on `stream` and takes pointers into that stream's device. Each
// is one source for both devices (common/parallel_for.hpp); one index owns one output and adds
// in a fixed order, so that a run repeats to the bit.
#pragma once

#include "common/stream.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// x[r][c] += bias[c], x (rows, columns).
void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x);
// The same, then ReLU: negative becomes 0.
void add_bias_relu(const Stream& stream, std::size_t rows, std::size_t columns,
                   const float* bias, float* x);
// gradient[i] = 0 where the ReLU's output was 0.
void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient);
// sums[c] = sum over r of x[r][c], x (rows, columns): the gradient of a bias. With `add`, on
// top of what is there.
void column_sums(const Stream& stream, std::size_t rows, std::size_t columns, const float* x,
                 float* sums, bool add = false);

// into[i] += x[i].
void add_to(const Stream& stream, std::size_t count, const float* x, float* into);
// x[i] *= factor.
void scale(const Stream& stream, std::size_t count, float factor, float* x);

// Softmax and cross entropy, forward and backward at once. For each row of logits (rows,
// classes):
//   losses[r]       = -log softmax(logits[r])[targets[r]]
//   gradient[r][c]  = (softmax(logits[r])[c] - (c == targets[r])) * scale
// so with `scale` 1 / rows, `gradient` is that of the mean loss.
void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale);
// hits[r] = 1 if the largest of logits[r] (the first of several) stands at targets[r], else 0.
void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits);

// The steps of the optimizers, each in one pass over memory. Their factors are computed in
// double on the host, as PyTorch does, and rounded once.

// SGD (torch/optim/sgd.py; Sutskever et al., 2013, for the momentum):
//   g = g + weight_decay p
//   buffer = first_step ? g : g one_minus_dampening + buffer momentum
//   p = p - lr (nesterov ? g + buffer momentum : buffer)
struct SgdFactors {
  float lr;
  float weight_decay = 0.0F;
  float momentum = 0.0F;
  float one_minus_dampening = 1.0F;
  bool nesterov = false;
  bool first_step = false;
};
// Without momentum there is no buffer, and p = p - lr g.
void sgd_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
              const float* gradient, float* parameter);
void sgd_momentum_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
                       const float* gradient, float* parameter, float* buffer);

// Adam and AdamW (torch/optim/adam.py, adamw.py; Kingma and Ba, 2015; Loshchilov and Hutter,
// 2019):
//   p = p parameter_scale;   g = g + gradient_decay p
//   m = g (1 - beta1) + m beta1;   v = g^2 (1 - beta2) + v beta2
//   p = p - step_size m / (sqrt(v) / root_correction + eps)
struct AdamFactors {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // lr / (1 - beta1^t), t the step from 1
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
  float gradient_decay = 0.0F;   // weight decay of Adam
  float parameter_scale = 1.0F;  // 1 - lr * weight decay of AdamW
};
void adam_step(const Stream& stream, std::size_t count, const AdamFactors& factors,
               const float* gradient, float* parameter, float* m, float* v);

// The sum over i of x[i]^2, in double, so that it is finite exactly if every x[i] is. `sums` is
// scratch of sum_of_squares_size(count) numbers on the stream's device; the one returned, one
// of them, holds the result when the stream is done.
std::size_t sum_of_squares_size(std::size_t count);
const double* sum_of_squares(const Stream& stream, std::size_t count, const float* x,
                             double* sums);

}  // namespace dist
