// What this file adds: the choice of which gradients are sent in the same message.
#pragma once

#include "05_ddp_training/model/module.hpp"
#include "05_ddp_training/optimizer/clip.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dist {

struct BucketCaps {
  std::size_t first_bytes = 1 << 20;  // PyTorch's default
  std::size_t bytes = 1 << 20;        // PyTorch's 25 MiB would hold our whole default model
};

// PyTorch's rule (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size):
// Tensors are taken in the given order, which should be the order in which gradients become
// ready. A bucket is closed as soon as it holds at least `cap` bytes (`first_cap` for the first
// one), so it may hold more than that. No tensor is ever split. The first bucket is small so
// that it is sent early and overlap with backward begins soon.
//
// `bytes[i]` is the size of tensor i; returns the tensors of each bucket, as indices into it.
std::vector<std::vector<std::size_t>> plan_buckets(std::span<const std::size_t> bytes,
                                                   std::size_t first_cap, std::size_t cap);

// A bucket of a model's gradients, as one message.
struct BucketPlan {
  std::string name;                     // "bucket 2: 2.bias, 2.weight"
  std::vector<std::string> names;       // "2.bias", "2.weight"
  std::vector<std::size_t> parameters;  // in the order of their numbers in the message
  std::vector<std::size_t> begins;      // where each one's numbers begin
  std::size_t count = 0;                // numbers of the message

  // The numbers of the i-th of `parameters` in a message.
  Tensor view(const Tensor& message, std::size_t i, const Shape& shape) const {
    return message.narrow(begins[i], numel(shape)).view(shape);
  }
};
// The same rule for a model's gradients. A chain of layers finishes them in the reverse order
// of registration. On a GPU, each of at least 256 bytes begins at a multiple of 256, like
// memory from cudaMalloc, because fast kernels need aligned addresses; what lies between them
// is sent along.
std::vector<BucketPlan> plan_buckets(std::span<const Parameter> parameters, BucketCaps caps);

// What chunk r of every bucket (chunk_range) holds of the parameters, for each of the ranks:
// the part of rank r if they share the work (sharding/). A run that is not divided needs it,
// too, to add up the gradients' squares in the same order.
std::vector<GradientNorm::Range> norm_ranges(std::span<const Parameter> parameters,
                                             std::span<const BucketPlan> plans, int ranks);

}  // namespace dist
