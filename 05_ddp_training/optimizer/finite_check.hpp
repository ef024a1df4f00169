// What this file adds: the decision whether a step is taken. A single number that is not
// finite, in one gradient of one rank, could spread to the parameters of all ranks, so a step
// with such a gradient is skipped. Testing the averaged gradients needs no messages: a sum is
// not finite if one of its terms is not, and all ranks have the same sums.
//
// As in kernels.hpp, every function queues its work on `stream` and takes pointers to memory on
// that stream's device. The decision also stays on the device: a host that waited for it could
// not queue the next step in the meantime.
#pragma once

#include "common/stream.hpp"

#include <cstddef>
#include <cstdint>
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

// An optimizer's record of its steps, stored on the device and, after each step, reported to
// the host. PyTorch's fused optimizers use `found_inf` and a step count on the device for the
// same purpose.
struct UpdateState {
  // After this many skipped steps in a row, no more steps are taken, because the cause is
  // evidently not temporary.
  static constexpr std::int64_t kMostSkippedInARow = 10;

  std::int64_t calls = 0;             // steps taken or skipped
  std::int64_t steps = 0;             // steps taken
  std::int64_t skipped_in_a_row = 0;  // steps skipped since the last one taken
  std::int64_t culprit = -1;  // the parameter that caused the last step to be skipped, or -1
  float lr = 0;               // of the current step
  // Adam's factors that depend on lr and the number of steps (prepare_adam).
  float step_size = 0;
  float root_correction = 1;
  float parameter_scale = 1;
  // With --clip-norm: the norm of all gradients, and what they are multiplied by.
  double norm = 0;
  float gradient_scale = 1;
  // StepLoss's numbers, averaged over the ranks: the loss, and whether a rank was asked to
  // stop.
  double loss = 0;
  bool stop = false;

  constexpr bool is_open() const { return culprit < 0; }
};

// The host may queue this many steps before it reads the report of the first.
inline constexpr std::size_t kMostStepsInFlight = 16;

// What a decision reads and writes. A step's place in a ring is its number modulo the ring's
// size. The rings are in pinned host memory, everything else is in the device's memory.
struct Decision {
  const double* lr;      // ring of kMostStepsInFlight learning rates
  UpdateState* reports;  // likewise, of what the host reads about a step
  UpdateState* state;
  std::span<float> not_finite;           // 1 if a parameter's gradient is not finite, else 0
  std::span<const double> squares = {};  // GradientNorm's; empty: nothing is clipped
  double most_norm = 0;                  // the limit of the norm
  double beta1 = 0, beta2 = 0, decoupled_decay = 0;  // Adam's and AdamW's
  const double* numbers = nullptr;                   // StepLoss's; null: none
  unsigned* blocks_done = nullptr;  // 0 (parallel_for_then); only a GPU needs it
};

// Raises the flag of each parameter whose gradient is not finite. With `decides`, also decides
// (below), for at least one tensor; on a GPU, the last kernel of the check does both.
void check_finite(const Stream& stream, std::span<const UpdateTensors> tensors,
                  const Decision& decision, bool decides);
// Decides whether the next step is taken, that is, whether no flag is raised. Reports the
// decision and lowers the flags.
void decide(const Stream& stream, const Decision& decision);

}  // namespace dist
