// The arithmetic of the optimizers, and the decision on whether a step is taken at all.
//
// As in kernels.hpp, every function queues its work on `stream` and takes pointers to memory on
// that stream's device. The decision also stays on the device: a host that waited for it could
// not queue the next step in the meantime.
#pragma once

#include "common/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace dist {

// A parameter and what its update reads and writes, in the device's memory.
struct UpdateTensors {
  std::size_t count = 0;  // elements of each
  const float* gradient = nullptr;
  float* parameter = nullptr;
  float* m = nullptr;      // Adam's m, or SGD's momentum buffer
  float* v = nullptr;      // Adam's v
  std::size_t number = 0;  // of the parameter, for Decision::not_finite
};

// An optimizer's record of its steps, stored on the device. PyTorch's fused optimizers use
// `found_inf` and a step count on the device for the same purpose.
struct UpdateState {
  // After this many skipped steps in a row, no more steps are taken, because the cause is
  // evidently not temporary.
  static constexpr std::int64_t kMostSkippedInARow = 10;

  std::int64_t calls = 0;             // steps taken or skipped
  std::int64_t steps = 0;             // steps taken
  std::int64_t skipped_in_a_row = 0;  // steps skipped since the last one taken
  std::int64_t culprit = -1;  // the parameter that caused the last step to be skipped, or -1
  // The current step's learning rate, and factors that depend on it (AdamFactors).
  float lr = 0;
  float step_size = 0;
  float root_correction = 1;
  float parameter_scale = 1;
  // With --clip-norm: the norm of all gradients, and what they are multiplied by.
  double norm = 0;
  float gradient_scale = 1;

  constexpr bool is_open() const { return culprit < 0; }
};

// What the host reads about a step, once the work queued on the stream is done.
struct StepReport {
  UpdateState update;
  double loss = 0;
  bool stop = false;  // a rank was asked to stop
};

// The host may queue this many steps before it reads the report of the first.
inline constexpr std::size_t kMostStepsInFlight = 16;

// What a decision reads and writes. A step's place in a ring is its number modulo the ring's
// size. The rings are in pinned host memory, everything else is in the device's memory.
struct Decision {
  double beta1, beta2, decoupled_decay;  // Adam's and AdamW's
  const double* lr;                      // ring of kMostStepsInFlight learning rates
  const double* numbers;                 // StepLoss's, averaged over the ranks; may be null
  float* not_finite;       // for each parameter: 1 if its gradient is not finite, else 0
  std::size_t parameters;  // the number of these flags
  const double* squares;   // GradientNorm's; null: nothing is clipped
  std::size_t ranks;       // the number of squares
  double most_norm;        // the limit of the norm
  unsigned* blocks_done;   // 0 (parallel_for_then)
  UpdateState* state;
  StepReport* reports;  // ring of kMostStepsInFlight
};
// Decides whether the next step is taken, that is, whether every gradient is finite, and
// reports the decision. `agree` is called after the flags have been queued and before the
// decision, so that ranks that see different gradients can exchange their flags.
void decide_update(const Stream& stream, std::span<const UpdateTensors> tensors,
                   const Decision& decision, const std::function<void()>& agree = {});

// The steps of the optimizers, each in one pass over memory and, on a GPU, one kernel for up to
// 64 parameters. The factors are computed in double precision and rounded once, as in PyTorch.
// With a `state`, the step is taken only if the state is open, and the learning rate and what
// depends on it come from the state.

// SGD (torch/optim/sgd.py; Sutskever et al., 2013, for the momentum):
//   g = g + weight_decay p
//   buffer = first_step ? g : g one_minus_dampening + buffer momentum
//   p = p - lr (nesterov ? g + buffer momentum : buffer)
// Without a buffer (m), p = p - lr g.
struct SgdFactors {
  float lr = 0.0F;
  float gradient_scale = 1.0F;  // g is first multiplied by this, to clip it
  float weight_decay = 0.0F;
  float momentum = 0.0F;
  float one_minus_dampening = 1.0F;
  bool nesterov = false;
  bool first_step = false;  // ignored with a state, because the state counts the steps
};
void sgd_step(const Stream& stream, std::span<const UpdateTensors> tensors,
              const SgdFactors& factors, const UpdateState* state = nullptr);

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
  float gradient_scale = 1.0F;   // g is first multiplied by this, to clip it
  float parameter_scale = 1.0F;  // AdamW's 1 - lr * weight decay
};
void adam_step(const Stream& stream, std::span<const UpdateTensors> tensors,
               const AdamFactors& factors, const UpdateState* state = nullptr);

}  // namespace dist
