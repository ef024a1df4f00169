// What this file adds: which gradients travel in one message.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// PyTorch's rule (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size):
// tensors are taken in the given order, which should be that in which gradients become ready; a
// bucket is closed as soon as it holds at least `cap` bytes (the first: `first_cap`), so it may
// hold more, and no tensor is ever split. The first bucket is small because it is ready early:
// the sooner it leaves, the sooner communication runs beside backward.
//
// `bytes[i]` is the size of tensor i; returns the tensors of each bucket, as indices into it.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const std::size_t> bytes,
                                                   std::size_t first_cap, std::size_t cap);

}  // namespace dist
