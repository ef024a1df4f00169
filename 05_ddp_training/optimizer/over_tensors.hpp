// What this file adds: one operation on every element of several tensors. Only the files that
// contain an operation include it (sgd, adam, finite_check): nvcc compiles them in a CUDA
// build.
#pragma once

#include "05_ddp_training/model/parallel_for.hpp"
#include "05_ddp_training/optimizer/finite_check.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace dist {

// Maps one range of indices to the elements of several tensors, so that one kernel handles all
// of them: launching a kernel takes longer than updating a bias. The table is an argument of
// the kernel, and these were limited to 4 KiB before CUDA 12.1. PyTorch's multi_tensor_apply
// does the same.
template <class Body>
struct OverTensors {
  static constexpr std::size_t kMost = 64;
  Body body;
  UpdateTensors tensors[kMost] = {};

  OverTensors(const Body& of_all, std::span<const UpdateTensors> some) : body(of_all) {
    std::ranges::copy(some, tensors);
  }
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    std::size_t t = 0;
    while (i >= tensors[t].count) i -= tensors[t++].count;
    body(tensors[t], i);
  }
};

// Calls launch(table, number of indices, whether it is the last) for groups of tensors.
template <class Body, class Launch>
void over_tensors(std::span<const UpdateTensors> tensors, const Body& body, Launch launch) {
  using Table = OverTensors<Body>;
  static_assert(sizeof(Table) < 4096 - 512);
  for (std::size_t begin = 0; begin < tensors.size(); begin += Table::kMost) {
    const auto some = tensors.subspan(begin, std::min(Table::kMost, tensors.size() - begin));
    std::size_t count = 0;
    for (const UpdateTensors& each : some) count += each.count;
    launch(Table(body, some), count, begin + some.size() == tensors.size());
  }
}

// On a CPU, the loop over a tensor has its own copy of the state.
template <class Step>
struct OnTensor {
  Step step;
  UpdateState state;
  UpdateTensors tensors;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { step(tensors, state, i); }
};

template <class Step>
struct IfOpen {
  Step step;
  const UpdateState* state;
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    const UpdateState now = *state;
    if (now.is_open()) step(t, now, i);
  }
};

// Takes an optimizer's step, if the state says that it is taken. This is one pass over memory
// and, on a GPU, one kernel for up to 64 tensors.
template <class Step>
void take_step(const Stream& stream, std::span<const UpdateTensors> tensors, const Step& step,
               const UpdateState* state) {
  if (!stream.device().is_cpu()) {
    over_tensors(tensors, IfOpen<Step>{step, state},
                 [&](const auto& table, std::size_t count, bool) {
                   parallel_for(stream, count, table);
                 });
  } else if (state->is_open()) {
    for (const UpdateTensors& each : tensors) {
      parallel_for(stream, each.count, OnTensor<Step>{step, *state, each});
    }
  }
}

}  // namespace dist
