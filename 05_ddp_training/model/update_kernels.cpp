// Like kernels.cpp, this file has one struct per operation. It is also compiled the same way.
// Look at: IfOpen, which makes a step depend on a number that is known only to the device.
#include "05_ddp_training/model/update_kernels.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

#include <cmath>

namespace dist {
namespace {

// Like PyTorch, omit a term if its factor is 0, because 0 times an infinite parameter is not 0.
// A condition that is the same for all indices costs nothing: the compiler evaluates it outside
// the loop, or once per vector of elements.
struct SgdStep {
  SgdFactors f;
  const float* gradient;
  float* parameter;
  DIST_HOST_DEVICE void take_from(const UpdateState&) {}
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i];
    const float g =
        f.weight_decay == 0.0F ? gradient[i] : std::fma(p, f.weight_decay, gradient[i]);
    parameter[i] = std::fma(g, -f.lr, p);
  }
};

struct SgdMomentumStep {
  SgdFactors f;
  const float* gradient;
  float *parameter, *buffer;
  DIST_HOST_DEVICE void take_from(const UpdateState& state) { f.first_step = state.steps == 1; }
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i];
    const float g =
        f.weight_decay == 0.0F ? gradient[i] : std::fma(p, f.weight_decay, gradient[i]);
    const float b =
        f.first_step ? g : std::fma(g, f.one_minus_dampening, buffer[i] * f.momentum);
    buffer[i] = b;
    parameter[i] = std::fma(f.nesterov ? std::fma(b, f.momentum, g) : b, -f.lr, p);
  }
};

struct AdamStep {
  AdamFactors f;
  const float* gradient;
  float *parameter, *m, *v;
  DIST_HOST_DEVICE void take_from(const UpdateState& state) {
    f.step_size = state.step_size;
    f.root_correction = state.root_correction;
  }
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const float p = parameter[i] * f.parameter_scale;
    const float g =
        f.gradient_decay == 0.0F ? gradient[i] : std::fma(p, f.gradient_decay, gradient[i]);
    m[i] = std::fma(g, f.one_minus_beta1, m[i] * f.beta1);
    v[i] = std::fma(f.one_minus_beta2 * g, g, v[i] * f.beta2);
    // Like PyTorch, add eps after the correction and the root, not inside the root.
    const float denominator = std::sqrt(v[i]) / f.root_correction + f.eps;
    parameter[i] = p + (-f.step_size * m[i]) / denominator;
  }
};

// Adds the numbers in a tree: each index adds up one block, and further passes add up the
// blocks' sums until one number is left. The order of additions depends only on `count`. Each
// index keeps eight partial sums, so that a CPU can update all of them with one instruction
// instead of waiting for each addition.
struct SumBlock {
  static constexpr std::size_t kSize = 256;
  static constexpr std::size_t kLanes = 8;
  std::size_t count;
  const float* squared;  // the input of the first pass, which squares it
  const double* plain;   // the input of the later passes
  double* sums;

  DIST_HOST_DEVICE double term(std::size_t i) const {
    if (squared == nullptr) return plain[i];
    const double x = squared[i];
    return x * x;  // no overflow: a double can hold the square of any float
  }
  DIST_HOST_DEVICE void operator()(std::size_t block) const {
    const std::size_t end = count - block * kSize < kSize ? count : (block + 1) * kSize;
    std::size_t i = block * kSize;
    double lane[kLanes] = {};
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) lane[l] += term(i + l);
    }
    for (std::size_t l = 0; i < end; ++i, ++l) lane[l] += term(i);
    double sum = 0.0;
    for (const double part : lane) sum += part;
    sums[block] = sum;
  }
};

std::size_t sum_blocks(std::size_t count) {
  return count <= 1 ? 1 : (count + SumBlock::kSize - 1) / SumBlock::kSize;
}

// Runs for a single index, because there is one decision per step.
struct Decide {
  std::size_t parameters;
  const double* squares;
  double lr, beta1, beta2;
  UpdateState* state;
  DIST_HOST_DEVICE void operator()(std::size_t) const {
    UpdateState& s = *state;
    if (s.skipped_in_a_row >= UpdateState::kMostSkippedInARow) return;  // stay closed for good
    s.culprit = -1;
    for (std::size_t p = parameters; p-- > 0;) {
      // True for infinity, and also for NaN, because every comparison with a NaN is false.
      if (!(squares[p] <= 1.7976931348623157e308)) s.culprit = static_cast<std::int64_t>(p);
    }
    if (!s.is_open()) {
      ++s.skipped_in_a_row;
      return;
    }
    s.skipped_in_a_row = 0;
    const auto t = static_cast<double>(++s.steps);
    s.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
    s.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  }
};

// Called when the stream reaches the step. Returns the step's body, or nullopt if the step is
// skipped.
template <class Step>
struct IfOpen {
  Step step;
  const UpdateState* state;
  DIST_HOST_DEVICE std::optional<Step> operator()() const {
    if (state == nullptr) return step;
    if (!state->is_open()) return std::nullopt;
    Step now = step;
    now.take_from(*state);
    return now;
  }
};

template <class Step>
void run(const Stream& stream, std::size_t count, const Step& step, const UpdateState* state) {
  parallel_for_if(stream, count, IfOpen<Step>{step, state});
}

}  // namespace

void decide_update(const Stream& stream, std::size_t parameters, const double* squares,
                   double lr, double beta1, double beta2, UpdateState* state) {
  parallel_for(stream, 1, Decide{parameters, squares, lr, beta1, beta2, state});
}

void sgd_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
              const float* gradient, float* parameter, const UpdateState* state) {
  run(stream, count, SgdStep{factors, gradient, parameter}, state);
}

void sgd_momentum_step(const Stream& stream, std::size_t count, const SgdFactors& factors,
                       const float* gradient, float* parameter, float* buffer,
                       const UpdateState* state) {
  run(stream, count, SgdMomentumStep{factors, gradient, parameter, buffer}, state);
}

void adam_step(const Stream& stream, std::size_t count, const AdamFactors& factors,
               const float* gradient, float* parameter, float* m, float* v,
               const UpdateState* state) {
  run(stream, count, AdamStep{factors, gradient, parameter, m, v}, state);
}

std::size_t sum_of_squares_size(std::size_t count) {
  std::size_t size = 0;
  do {
    count = sum_blocks(count);
    size += count;
  } while (count > 1);
  return size;
}

void sum_of_squares(const Stream& stream, std::size_t count, const float* x, double* sums,
                    double* result) {
  const double* plain = nullptr;
  for (;;) {
    const std::size_t blocks = sum_blocks(count);
    double* const to = blocks == 1 ? result : sums;
    parallel_for(stream, blocks, SumBlock{count, plain == nullptr ? x : nullptr, plain, to});
    if (blocks == 1) return;
    count = blocks;
    plain = sums;
    sums += blocks;
  }
}

}  // namespace dist
