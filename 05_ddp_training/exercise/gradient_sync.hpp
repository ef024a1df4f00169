// What `overlap` is given and what it returns. Given: nothing to fill in.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist::exercise {

// A parameter's gradient, in memory of the model's own.
struct Gradient {
  std::string name;         // "2.weight"
  std::span<float> values;  // on the CPU
};

// Which gradients travel together: the indices of each bucket's, bucket 0 first. Every gradient
// is in one bucket, and no bucket is empty.
using BucketPlan = std::vector<std::vector<std::size_t>>;

// Gradients that are averaged over the ranks while backward still computes others.
class GradientSync {
 public:
  virtual ~GradientSync() = default;
  // Backward calls it once per step for each gradient, as soon as that is complete.
  virtual void mark_ready(std::size_t index) = 0;
  // Called after backward; when it returns, every gradient is the average over the ranks.
  virtual void finalize() = 0;
};

}  // namespace dist::exercise
