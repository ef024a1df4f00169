// What this file adds: the step that --explain shows, small enough to check by hand, and a
// record of its intermediate results.
#pragma once

#include "05_ddp_training/explain/snapshot.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dist {

constexpr double kExplainedLearningRate = 0.5;

// Linear(2, 2), ReLU, Linear(2, 2) with numbers that make hidden = ReLU(x) and
// logits = (2 hidden_0, hidden_1). The other ranks start with different numbers, which rank 0's
// must replace.
Mlp make_explained_model(int rank, const Stream& stream);

struct ExplainedStep {
  std::vector<std::size_t> samples;
  Snapshot inputs;
  std::vector<std::int32_t> labels;
  Snapshot logits;
  double loss = 0;  // the mean over this rank's samples
  Snapshot grad_logits;
  Snapshots gradients;   // as the optimizer received them
  Snapshots parameters;  // after the optimizer's step
};

// Takes one step of SGD, with this rank's share of four samples as one batch. `backward` is the
// backward pass of the model or of DDP. Nothing else differs between one process and many.
ExplainedStep take_explained_step(
    Mlp& model, int ranks, int rank, const Stream& stream,
    const std::function<void(const Tensor& grad_logits)>& backward);

}  // namespace dist
