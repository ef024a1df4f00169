#include "05_ddp_training/optimizer/optimizer.hpp"

#include "05_ddp_training/model/parallel_for_parts.hpp"
#include "05_ddp_training/optimizer/adam.hpp"
#include "05_ddp_training/optimizer/sgd.hpp"
#include "common/check.hpp"

#include <atomic>
#include <cmath>
#include <string>

namespace dist {

DIST_HOST_DEVICE inline bool is_finite(float x) {
  // The comparison is false for infinity and, like every comparison, for NaN.
  return std::fabs(x) <= 3.402823466e38F;
}

// Several blocks may raise the same flag, but all of them write the same value.
template <class T>
DIST_HOST_DEVICE void raise(T* flag) {
#if defined(__CUDA_ARCH__)
  *flag = T{1};
#else
  std::atomic_ref<T>(*flag).store(T{1}, std::memory_order_relaxed);
#endif
}

// The test for gradients that are not finite. One such number, in one gradient of one rank,
// could spread to all parameters of all ranks, so the step is skipped (Decide). No messages are
// needed: an average is not finite if one of its terms is not, and all ranks have the same.
//
// Raises the flag of a tensor whose gradient is not finite somewhere in a block of kSize
// elements. The compiler vectorizes the loop over a block, because it has no branch.
template <std::size_t kSize>
struct CheckBlock {
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t block) const {
    const std::size_t begin = block * kSize;
    const std::size_t end = t.count - begin < kSize ? t.count : begin + kSize;
    int found = 0;
    for (std::size_t i = begin; i < end; ++i) found |= is_finite(t.gradient[i]) ? 0 : 1;
    if (found != 0) raise(t.not_finite);
  }
};

// Runs once per step, on the device. A step's place in a ring is its number modulo the ring's
// size. The rings are in pinned host memory, everything else is in the device's memory.
struct Decide {
  const double* lr;      // ring of kMostStepsInFlight learning rates
  UpdateState* reports;  // likewise, of what the host reads about a step
  UpdateState* state;
  std::span<float> not_finite;      // 1 if a parameter's gradient is not finite, else 0
  const double* diverged;           // write_divergence_to's
  std::span<const double> squares;  // GradientNorm's; empty: nothing is clipped
  double most_norm;                 // the limit of the norm
  OptimizerKind kind;
  double beta1, beta2, weight_decay;

  DIST_HOST_DEVICE void operator()(std::size_t) const { (*this)(); }
  DIST_HOST_DEVICE void operator()() const {
    UpdateState& s = *state;
    const auto place = static_cast<std::size_t>(s.calls++) % kMostStepsInFlight;
    s.diverged = diverged != nullptr && *diverged > 0;
    if (s.skipped_in_a_row < UpdateState::kMostSkippedInARow) decide(s, lr[place]);
    reports[place] = s;
  }
  DIST_HOST_DEVICE void decide(UpdateState& s, double rate) const {
    s.culprit = -1;
    for (std::size_t p = not_finite.size(); p-- > 0;) {
      if (not_finite[p] != 0) s.culprit = static_cast<std::int64_t>(p);
      not_finite[p] = 0;
    }
    if (!s.is_open()) {
      ++s.skipped_in_a_row;
      return;
    }
    s.skipped_in_a_row = 0;
    ++s.steps;
    s.lr = static_cast<float>(rate);
    switch (kind) {
      case OptimizerKind::sgd: break;
      case OptimizerKind::adam: prepare_adam(s, rate, beta1, beta2, 0.0); break;
      case OptimizerKind::adamw: prepare_adam(s, rate, beta1, beta2, weight_decay); break;
    }
    if (!squares.empty()) prepare_clipping(s, squares, most_norm);
  }
};

namespace {

// Updates a block of kSize elements, unless the step is skipped. The updates of finite
// gradients may be too large for a float32. No gradient need tell that later: a ReLU makes 0 of
// minus infinity, and on a GPU perhaps of NaN (gemm_cuda.cpp).
template <std::size_t kSize, class Step>
struct UpdateBlock {
  Step step;
  const UpdateState* state;
  double* diverged;  // raised if a new parameter is not finite; null: not wanted
  DIST_HOST_DEVICE void operator()(const UpdateTensors& t, std::size_t block) const {
    const UpdateState now = *state;  // so that no store in the loop can change it
    if (!now.is_open()) return;
    const std::size_t begin = block * kSize;
    const std::size_t end = t.count - begin < kSize ? t.count : begin + kSize;
    int found = 0;
#pragma omp simd
    for (std::size_t i = begin; i < end; ++i) step(t, now, i);
    for (std::size_t i = begin; i < end; ++i) found |= is_finite(t.parameter[i]) ? 0 : 1;
    if (found != 0 && diverged != nullptr) raise(diverged);
  }
};

}  // namespace

Optimizer::Optimizer(OptimizerOptions options, std::span<Parameter> parameters,
                     const Stream& stream)
    : options_(std::move(options)),
      parameters_(parameters),
      update_(1, stream.device()),
      flags_({parameters.size()}, stream.device()),
      blocks_done_(1, stream.device()),
      lr_(kMostStepsInFlight, stream.device(), Memory::pinned),
      reports_(kMostStepsInFlight, stream.device(), Memory::pinned) {
  const bool remembers = options_.kind != OptimizerKind::sgd || options_.momentum != 0.0;
  for (const std::string_view state : facts(options_.kind).states) {
    if (state.empty() || !remembers) break;
    for (const Parameter& parameter : parameters) {
      state_.push_back({std::string(state) + "." + parameter.name,
                        Tensor(parameter.value.shape(), stream.device())});
    }
  }
  set_steps(0, stream);
}

void Optimizer::check(const Stream& stream, bool decides) {
  if (options_.clip_norm > 0 && !norm_) {
    throw Error("an optimizer that clips needs the norm of the gradients: call clip() first");
  }
  begin_ = stream.record_event();
  tensors_.clear();
  const std::size_t count = parameters_.size();
  const auto state = [&](std::size_t i) {
    return i < state_.size() ? state_[i].value.data() : nullptr;
  };
  for (std::size_t p = 0; p < count; ++p) {
    const auto& [name, value, grad, decays] = parameters_[p];
    tensors_.push_back({value.numel(), grad.data(), value.data(), state(p), state(count + p),
                        flags_.data() + p, decays});
  }
  if (norm_) norm_->queue_squares(tensors_, stream);
  const auto check_blocks = [&]<std::size_t kSize>(CheckBlock<kSize> body) {
    const std::span<const UpdateTensors> tensors(tensors_);
    if (!decides) return parallel_for_parts<kSize>(stream, tensors, body);
    parallel_for_parts<kSize>(stream, tensors, body, blocks_done_.data(), decision());
  };
  if (stream.device().is_cpu()) {
    check_blocks(CheckBlock<4096>{});
  } else {
    check_blocks(CheckBlock<1>{});
  }
}

Decide Optimizer::decision() const {
  return {.lr = lr_.data(),
          .reports = reports_.data(),
          .state = update_.data(),
          .not_finite = {flags_.data(), flags_.numel()},
          .diverged = diverged_,
          .squares = squares(),
          .most_norm = options_.clip_norm,
          .kind = options_.kind,
          .beta1 = options_.betas[0],
          .beta2 = options_.betas[1],
          .weight_decay = options_.weight_decay};
}

void Optimizer::step(const Stream& stream) {
  check(stream, /*decides=*/true);
  update(0, parameters_.size(), stream);
}

void Optimizer::decide(const Stream& stream) {
  parallel_for(stream, 1, decision());
}

void Optimizer::update(std::size_t first, std::size_t count, const Stream& stream) {
  const auto some = std::span<const UpdateTensors>(tensors_).subspan(first, count);
  const auto take = [&]<class Step>(const Step& step) {  // one pass over memory
    if (stream.device().is_cpu()) {
      parallel_for_parts<4096>(stream, some,
                               UpdateBlock<4096, Step>{step, update_.data(), diverged_});
    } else {
      parallel_for_parts<1>(stream, some,
                            UpdateBlock<1, Step>{step, update_.data(), diverged_});
    }
  };
  switch (options_.kind) {
    case OptimizerKind::sgd:
      return options_.momentum != 0.0 ? take(SgdMomentumStep(options_))
                                      : take(SgdStep(options_));
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return take(AdamStep(options_));
  }
}

std::size_t Optimizer::steps(const Stream& stream) const {
  UpdateState state;
  copy_bytes(stream, &state, update_.data(), sizeof state);
  stream.synchronize();
  return static_cast<std::size_t>(state.steps);
}

void Optimizer::set_steps(std::size_t steps, const Stream& stream) {
  UpdateState state;
  state.calls = static_cast<std::int64_t>(calls_);
  state.steps = static_cast<std::int64_t>(steps);
  copy_bytes(stream, update_.data(), &state, sizeof state);
  stream.synchronize();
}

}  // namespace dist
