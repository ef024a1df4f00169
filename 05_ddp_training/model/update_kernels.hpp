// The arithmetic of the optimizers, and the decision on whether a step is taken at all.
//
// As in kernels.hpp, every function queues its work on `stream` and takes pointers to memory on
// that stream's device. The decision also stays on the device: a host that waited for it could
// not queue the next step in the meantime.
#pragma once

#include "common/stream.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// An optimizer's record of its steps, stored on the device. PyTorch's fused optimizers use
// `found_inf` and a step count on the device for the same purpose.
struct UpdateState {
  // After this many skipped steps in a row, no more steps are taken, because the cause is
  // evidently not temporary.
  static constexpr std::int64_t kMostSkippedInARow = 10;

  std::int64_t steps = 0;             // steps taken
  std::int64_t skipped_in_a_row = 0;  // steps skipped since the last one taken
  std::int64_t culprit = -1;  // the parameter that caused the last step to be skipped, or -1
  // Adam's factors for the current step (AdamFactors).
  float step_size = 0;
  float root_correction = 1;

  bool is_open() const { return culprit < 0; }
};

// Decides whether the next step is taken, that is, whether squares[p], the sum_of_squares of
// parameter p's gradient, is finite for every p. `lr`, `beta1` and `beta2` are Adam's.
void decide_update(const Stream& stream, std::size_t parameters, const double* squares,
                   double lr, double beta1, double beta2, UpdateState* state);

// The steps of the optimizers, each in one pass over memory. The factors are computed in double
// precision and rounded once, as in PyTorch. With a `state`, the step is taken only if the
// state is open, and Adam's step_size and root_correction come from the state.

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
  bool first_step = false;  // ignored with a state, because the state counts the steps
};
// Without momentum, there is no buffer and p = p - lr g.
void sgd_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
              const float* gradient, float* parameter, const UpdateState* state = nullptr);
void sgd_momentum_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
                       const float* gradient, float* parameter, float* buffer,
                       const UpdateState* state = nullptr);

// Adam and AdamW (torch/optim/adam.py, adamw.py; Kingma and Ba, 2015; Loshchilov and Hutter,
// 2019):
//   p = p parameter_scale;   g = g + gradient_decay p
//   m = g (1 - beta1) + m beta1;   v = g^2 (1 - beta2) + v beta2
//   p = p - step_size m / (sqrt(v) / root_correction + eps)
struct AdamFactors {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size = 0.0F;        // lr / (1 - beta1^t); t counts steps from 1
  float root_correction = 1.0F;  // sqrt(1 - beta2^t)
  float eps;
  float gradient_decay = 0.0F;   // Adam's weight decay
  float parameter_scale = 1.0F;  // AdamW's 1 - lr * weight decay
};
void adam_step(const Stream& stream, std::size_t count, const AdamFactors& factors,
               const float* gradient, float* parameter, float* m, float* v,
               const UpdateState* state = nullptr);

// *result = the sum over i of x[i]^2, in double precision, so that it is finite if and only if
// every x[i] is. `sums` is scratch memory for sum_of_squares_size(count) numbers. `x`, `sums`
// and `result` are on the device.
std::size_t sum_of_squares_size(std::size_t count);
void sum_of_squares(const Stream& stream, std::size_t count, const float* x, double* sums,
                    double* result);

}  // namespace dist
