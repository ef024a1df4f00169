// What the exercise `overlap` receives and what it implements. This file is complete.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist::exercise {

// A parameter's gradient, in the model's own memory.
struct Gradient {
  std::string name;         // "2.weight"
  std::span<float> values;  // on the CPU
};

// Which gradients are sent together: the indices of each bucket's gradients, bucket 0 first.
// Every gradient is in exactly one bucket, and no bucket is empty.
using BucketPlan = std::vector<std::vector<std::size_t>>;

// Averages gradients over the ranks while backward is still computing others.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  // Backward calls it once per step for each gradient, as soon as the gradient is complete.
  virtual void mark_ready(std::size_t index) = 0;
  // Called after backward. When it returns, every gradient is the average over the ranks.
  virtual void finalize() = 0;
};

}  // namespace dist::exercise
