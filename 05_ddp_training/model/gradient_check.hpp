// What this file adds: a check of a model's backward, for a Module of your own.
#pragma once

#include "05_ddp_training/model/module.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace dist {

// What is wrong with `model`'s backward, beginning with the parameter's name, or "" if nothing
// is. For one process, on the CPU; `targets` is a class per row of the logits. All parameters
// and gradients are afterwards as they were.
//
// Compares 16 numbers of each gradient, among them the first and the last, with differences of
// the loss, (loss(w + h) - loss(w - h)) / 2h (torch.autograd.gradcheck, but in float32, so only
// a relative error of some per cent is found): for the whole batch, for half of it and for one
// row, each at the model's own parameters and twice at others that it draws, because behind a
// weight that is 0, all gradients are 0. A difference across a ReLU's kink is no evidence: only
// what several steps, in several of these places, agree about is called wrong.
//
// And what data parallelism relies on: the hook names each parameter once, when its gradient is
// complete; a second batch is added with Accumulate::yes and replaces the first without; and a
// smaller batch after a larger one is not mixed with it.
//
// Writes what was compared to `compared`, if nothing is wrong.
std::string wrong_gradient(Module& model, const Tensor& input,
                           std::span<const std::int32_t> targets,
                           std::string* compared = nullptr);

}  // namespace dist
