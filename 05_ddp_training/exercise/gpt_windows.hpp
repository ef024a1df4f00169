// Exercise of the finale: share a step's windows so that N ranks learn what one would.
// Check it with ./learn check gpt_windows; ./learn hint gpt_windows prints the next hint.
#pragma once

#include "05_ddp_training/exercise/window_share.hpp"
#include "tools/exercises/not_started.hpp"

#include <cstddef>
#include <span>

namespace dist::exercise {

// On one process, a step's loss is the mean over all targets of its windows. Window w has
// targets[w] of them: as many as characters, but fewer at the end of a text, and none if all of
// it is padding.
//
// On N ranks, each rank computes the mean over the targets of its own windows, and that mean's
// gradients. It multiplies them by `weight`, and then DDP's all-reduce takes the plain mean
// over the ranks: their sum, divided by N. Returns rank `rank`'s windows and weight such that
// this is the one process's gradient, whatever the numbers of windows and of ranks:
//
//   - each window is on exactly one rank: none is left out, and none is repeated
//   - no rank has more than one window more than another; which ones is up to you
//   - a rank without windows, or whose windows have no targets, has no mean: its weight is 0
//
// For example, windows of 64, 64, 64 and 8 targets on 2 ranks may be shared as {0, 1} and
// {2, 3}, with the weights 1.28 and 0.72.
//
// Called on one rank; sends no messages. The function needs only its arguments, which may
// describe any rank of any number of ranks.
//
// Target: weights that are exact up to a double's rounding.
inline WindowShare gpt_windows(std::span<const std::size_t> targets, int num_replicas,
                               int rank) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
