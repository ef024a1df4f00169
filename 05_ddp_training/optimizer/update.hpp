// What this file adds: what an optimizer's step reads and writes on the device, the decision
// whether it is taken included: a host that waited for that could not queue the next step.
#pragma once

#include "common/device.hpp"

#include <cstddef>
#include <cstdint>

namespace dist {

// A parameter and what its update reads and writes, in the device's memory.
struct UpdateTensors {
  std::size_t count = 0;  // elements of each
  const float* gradient = nullptr;
  float* parameter = nullptr;
  float* m = nullptr;           // Adam's m, or SGD's momentum buffer
  float* v = nullptr;           // Adam's v
  float* not_finite = nullptr;  // set to 1 if the gradient is not finite (CheckBlock)
  bool decays = true;           // Parameter's
};

// An optimizer's record of its steps, on the device and, after each step, reported to the host.
// PyTorch's fused optimizers have `found_inf` and a step count there for the same purpose.
struct UpdateState {
  // After this many skipped steps in a row, none is taken: the cause is not temporary.
  static constexpr std::int64_t kMostSkippedInARow = 10;

  std::int64_t calls = 0;             // steps taken or skipped
  std::int64_t steps = 0;             // steps taken
  std::int64_t skipped_in_a_row = 0;  // steps skipped since the last one taken
  std::int64_t culprit = -1;  // the parameter that caused the last step to be skipped, or -1
  bool diverged = false;      // before this step: some rank's parameters were infinite or NaN
  float lr = 0;               // of the current step
  // Adam's factors that depend on lr and the number of steps (prepare_adam).
  float step_size = 0;
  float root_correction = 1;
  float parameter_scale = 1;
  // With --clip-norm: the norm of all gradients, and what they are multiplied by.
  double norm = 0;
  float gradient_scale = 1;

  constexpr bool is_open() const { return culprit < 0; }
};

// The host may queue this many steps before it reads the report of the first.
inline constexpr std::size_t kMostStepsInFlight = 16;

}  // namespace dist
