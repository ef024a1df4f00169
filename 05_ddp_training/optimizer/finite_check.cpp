// Look at: Decide, which makes a step depend on numbers that are known only to the device.
#include "05_ddp_training/optimizer/finite_check.hpp"

#include "05_ddp_training/optimizer/adam.hpp"
#include "05_ddp_training/optimizer/clip.hpp"
#include "05_ddp_training/optimizer/over_tensors.hpp"

#include <atomic>
#include <cmath>

namespace dist {
namespace {

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
    if (d.numbers != nullptr) {
      s.loss = d.numbers[0];
      s.stop = d.numbers[1] > 0;
    }
    d.reports[place] = s;
  }
  DIST_HOST_DEVICE void decide(UpdateState& s, double lr) const {
    s.culprit = -1;
    for (std::size_t p = d.not_finite.size(); p-- > 0;) {
      if (d.not_finite[p] != 0) s.culprit = static_cast<std::int64_t>(p);
      d.not_finite[p] = 0;
    }
    if (!s.is_open()) {
      ++s.skipped_in_a_row;
      return;
    }
    s.skipped_in_a_row = 0;
    ++s.steps;
    s.lr = static_cast<float>(lr);
    prepare_adam(s, lr, d.beta1, d.beta2, d.decoupled_decay);
    if (!d.squares.empty()) prepare_clipping(s, d.squares, d.most_norm);
  }
};

}  // namespace

void check_finite(const Stream& stream, std::span<const UpdateTensors> tensors,
                  const Decision& d, bool decides) {
  if (!stream.device().is_cpu()) {
    over_tensors(tensors, CheckElement{d.not_finite.data()},
                 [&](const auto& table, std::size_t count, bool is_last) {
                   if (!is_last || !decides) return parallel_for(stream, count, table);
                   parallel_for_then(stream, count, table, Decide{d}, d.blocks_done);
                 });
    return;
  }
  for (const UpdateTensors& each : tensors) {
    parallel_for(stream, (each.count + CheckBlock::kSize - 1) / CheckBlock::kSize,
                 CheckBlock{each.count, each.gradient, &d.not_finite[each.number]});
  }
  if (decides) Decide{d}();
}

void decide(const Stream& stream, const Decision& d) {
  if (stream.device().is_cpu()) return Decide{d}();
  parallel_for(stream, 1, Decide{d});
}

}  // namespace dist
