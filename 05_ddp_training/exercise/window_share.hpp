// What the exercise `gpt_windows` returns. This file is complete.
#pragma once

#include <cstddef>
#include <vector>

namespace dist::exercise {

// One rank's part of a step.
struct WindowShare {
  std::vector<std::size_t> windows;  // their numbers in the step, in any order
  double weight;                     // by which the rank multiplies its gradients
};

}  // namespace dist::exercise
