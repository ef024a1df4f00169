// Like kernels.cpp, this file has one struct per operation. It is also compiled the same way.
// Look at: OverTensors, which gives all parameters to one kernel, and Decide, which makes a
// step depend on numbers that are known only to the device.
#include "05_ddp_training/optimizer/update_kernels.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace dist {
namespace {

// Like PyTorch, omit a term if its factor is 0, because 0 times an infinite parameter is not 0.
// A condition that is the same for all indices costs nothing: the compiler evaluates it outside
// the loop, or once per vector of elements.
struct SgdStep {
  SgdFactors f;
  DIST_HOST_DEVICE void take_from(const UpdateState& state) {
    f.lr = state.lr;
    f.gradient_scale = state.gradient_scale;
  }
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * f.gradient_scale;
    const float g = f.weight_decay == 0.0F ? raw : std::fma(p, f.weight_decay, raw);
    t.parameter[i] = std::fma(g, -f.lr, p);
  }
};

struct SgdMomentumStep {
  SgdFactors f;
  DIST_HOST_DEVICE void take_from(const UpdateState& state) {
    f.lr = state.lr;
    f.gradient_scale = state.gradient_scale;
    f.first_step = state.steps == 1;
  }
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    const float p = t.parameter[i];
    const float raw = t.gradient[i] * f.gradient_scale;
    const float g = f.weight_decay == 0.0F ? raw : std::fma(p, f.weight_decay, raw);
    const float b = f.first_step ? g : std::fma(g, f.one_minus_dampening, t.m[i] * f.momentum);
    t.m[i] = b;
    t.parameter[i] = std::fma(f.nesterov ? std::fma(b, f.momentum, g) : b, -f.lr, p);
  }
};

struct AdamStep {
  AdamFactors f;
  DIST_HOST_DEVICE void take_from(const UpdateState& state) {
    f.step_size = state.step_size;
    f.root_correction = state.root_correction;
    f.parameter_scale = state.parameter_scale;
    f.gradient_scale = state.gradient_scale;
  }
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    const float p = t.parameter[i] * f.parameter_scale;
    const float raw = t.gradient[i] * f.gradient_scale;
    const float g = f.gradient_decay == 0.0F ? raw : std::fma(p, f.gradient_decay, raw);
    t.m[i] = std::fma(g, f.one_minus_beta1, t.m[i] * f.beta1);
    t.v[i] = std::fma(f.one_minus_beta2 * g, g, t.v[i] * f.beta2);
    // Like PyTorch, add eps after the correction and the root, not inside the root.
    const float denominator = std::sqrt(t.v[i]) / f.root_correction + f.eps;
    t.parameter[i] = p + (-f.step_size * t.m[i]) / denominator;
  }
};

// A step on one tensor, or nothing if the state says so.
template <class Step>
struct OnTensor {
  Step step;
  UpdateTensors tensors;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { step(tensors, i); }
};

template <class Step>
struct IfOpen {
  Step step;
  const UpdateState* state;
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    Step now = step;
    if (state != nullptr) {
      if (!state->is_open()) return;
      now.take_from(*state);
    }
    now(t, i);
  }
};

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

template <class Step>
void run(const Stream& stream, std::span<const UpdateTensors> tensors, Step step,
         const UpdateState* state) {
  if (!stream.device().is_cpu()) {
    over_tensors(tensors, IfOpen<Step>{step, state},
                 [&](const auto& table, std::size_t count, bool) {
                   parallel_for(stream, count, table);
                 });
    return;
  }
  if (state != nullptr) {
    if (!state->is_open()) return;
    step.take_from(*state);
  }
  for (const UpdateTensors& each : tensors) {
    parallel_for(stream, each.count, OnTensor<Step>{step, each});
  }
}

// True for infinity, and also for NaN, because every comparison with a NaN is false.
DIST_HOST_DEVICE bool is_not_finite(float x) {
  return !(std::fabs(x) <= 3.402823466e38F);
}

// Several indices may raise the same flag, but all of them write the same value.
DIST_HOST_DEVICE void raise(float* flag) {
#if defined(__CUDA_ARCH__)
  *flag = 1.0F;
#else
  std::atomic_ref<float>(*flag).store(1.0F, std::memory_order_relaxed);
#endif
}

// On a GPU: one element per index.
struct CheckElement {
  float* not_finite;
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t i) const {
    if (is_not_finite(t.gradient[i])) raise(not_finite + t.number);
  }
};

// On a CPU: a block of elements per index, because the compiler vectorizes a loop without a
// branch.
struct CheckBlock {
  static constexpr std::size_t kSize = 4096;
  std::size_t count;
  const float* gradient;
  float* not_finite;
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    const std::size_t end = count - block * kSize < kSize ? count : (block + 1) * kSize;
    int found = 0;
    for (std::size_t i = block * kSize; i < end; ++i)
      found |= is_not_finite(gradient[i]) ? 1 : 0;
    if (found != 0) raise(not_finite);
  }
};

// Runs once per step.
struct Decide {
  Decision d;
  DIST_HOST_DEVICE void operator()(std::size_t) const { (*this)(); }
  DIST_HOST_DEVICE void operator()() const {
    UpdateState& s = *d.state;
    const auto place = static_cast<std::size_t>(s.calls++) % kMostStepsInFlight;
    if (s.skipped_in_a_row < UpdateState::kMostSkippedInARow) decide(s, d.lr[place]);
    StepReport& report = d.reports[place];
    report.update = s;
    if (d.numbers != nullptr) {
      report.loss = d.numbers[0];
      report.stop = d.numbers[1] > 0;
    }
  }
  DIST_HOST_DEVICE void decide(UpdateState& s, double lr) const {
    s.culprit = -1;
    for (std::size_t p = d.parameters; p-- > 0;) {
      if (d.not_finite[p] != 0) s.culprit = static_cast<std::int64_t>(p);
      d.not_finite[p] = 0;
    }
    if (!s.is_open()) {
      ++s.skipped_in_a_row;
      return;
    }
    s.skipped_in_a_row = 0;
    const auto t = static_cast<double>(++s.steps);
    s.lr = static_cast<float>(lr);
    s.step_size = static_cast<float>(lr / (1.0 - std::pow(d.beta1, t)));
    s.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(d.beta2, t)));
    s.parameter_scale = static_cast<float>(1.0 - lr * d.decoupled_decay);
    if (d.squares != nullptr) clip(s);
  }
  DIST_HOST_DEVICE void clip(UpdateState& s) const {
    double mean = 0;
    for (std::size_t rank = 0; rank < d.ranks; ++rank) mean += d.squares[rank];
    s.norm = std::sqrt(mean * static_cast<double>(d.ranks));
    const double scale = d.most_norm / (s.norm + 1e-6);
    s.gradient_scale = static_cast<float>(scale < 1.0 ? scale : 1.0);
  }
};

}  // namespace

void decide_update(const Stream& stream, std::span<const UpdateTensors> tensors,
                   const Decision& decision, const std::function<void()>& agree) {
  const Decide decide{decision};
  if (!stream.device().is_cpu()) {
    over_tensors(tensors, CheckElement{decision.not_finite},
                 [&](const auto& table, std::size_t count, bool is_last) {
                   if (is_last && !agree) {
                     parallel_for_then(stream, count, table, decide, decision.blocks_done);
                   } else {
                     parallel_for(stream, count, table);
                   }
                 });
    if (!agree) return;
    agree();
    parallel_for(stream, 1, decide);
    return;
  }
  for (const UpdateTensors& each : tensors) {
    parallel_for(stream, (each.count + CheckBlock::kSize - 1) / CheckBlock::kSize,
                 CheckBlock{each.count, each.gradient, decision.not_finite + each.number});
  }
  if (agree) agree();
  decide();
}

void sgd_step(const Stream& stream, std::span<const UpdateTensors> tensors,
              const SgdFactors& factors, const UpdateState* state) {
  if (tensors.empty() || tensors.front().m == nullptr) {
    run(stream, tensors, SgdStep{factors}, state);
  } else {
    run(stream, tensors, SgdMomentumStep{factors}, state);
  }
}

void adam_step(const Stream& stream, std::span<const UpdateTensors> tensors,
               const AdamFactors& factors, const UpdateState* state) {
  run(stream, tensors, AdamStep{factors}, state);
}

}  // namespace dist
