// Belief:  all 16-bit formats suit gradients equally well.
// Predict: every rank rounds its gradients to 16 bits before they are averaged, in a deep and
//          narrow model. Which share of them becomes 0 in fp16, and which in bf16? What changes
//          if the loss, and with it every gradient, is multiplied by 1024 beforehand, and the
//          gradients are divided by 1024 after rounding?
// You see: fp16 loses many gradients, with the default seed most of them, and the model
//          hardly learns. With the factor 1024 few are lost; bf16 loses none without a factor.
//          With too large a factor, gradients become infinite, and no step changes the model.
// Why:     fp16 has 5 bits for the exponent. Its smallest number is 6e-8, and a gradient that
//          passed many layers is often smaller. bf16 has the 8 exponent bits of fp32, and pays
//          for them with 3 bits of precision. The factor moves gradients into fp16's range:
//          this is loss scaling. PyTorch's GradScaler looks for the largest factor that fits.
// In the wild: "Mixed Precision Training", https://arxiv.org/abs/1710.03740, section 3.2.
#include "01_send_recv/gpu/host_copy.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dist {
namespace {

constexpr std::size_t kDeepLayers = 16;  // hidden
constexpr std::size_t kDeepWidth = 32;
constexpr std::size_t kDeepSteps = 128;

// The nearest fp16 number: 11 significant bits, fewer below 2^-14, and infinite above 65504.
float to_fp16(float value) {
  if (value == 0.0F || !std::isfinite(value)) return value;
  const float step = std::ldexp(1.0F, std::max(std::ilogb(value), -14) - 10);
  const float nearest = std::nearbyint(value / step) * step;
  return std::abs(nearest) > 65504.0F
             ? std::copysign(std::numeric_limits<float>::infinity(), value)
             : nearest;
}
float as_bf16(float value) {
  return to_float(to_bf16(value));
}
float as_fp32(float value) {
  return value;
}

struct Format {
  const char* name;
  float (*round)(float);
  float factor;  // of the loss
};
constexpr std::array kFormats{Format{"fp32", as_fp32, 1.0F}, Format{"bf16", as_bf16, 1.0F},
                              Format{"fp16", to_fp16, 1.0F},
                              Format{"fp16, loss x 1024", to_fp16, 1024.0F},
                              Format{"fp16, loss x 2^24", to_fp16, 0x1p24F}};

// The smallest number above 0, by halving.
double smallest(const Format& format) {
  float number = 1.0F;
  while (format.round(number / 2) == number / 2 && number / 2 > 0.0F) number /= 2;
  return static_cast<double>(number);
}

struct Outcome {
  double zeros = 0, infinite = 0;  // shares of this rank's gradients that were not 0
  double loss = 0;                 // over the whole data set, in the end
};

Outcome train(const Program& program, ProcessGroup& group, const Format& format) {
  SmallJob job{.layers = std::vector<std::size_t>(kDeepLayers + 2, kDeepWidth),
               .optimizer = {.name = "adam", .lr = 0.003}};
  job.layers.front() = 784;
  job.layers.back() = 10;
  SmallTraining training(program, job);
  Reducer reducer(training.model.parameters(), group, {});
  Outcome outcome;
  double gradients = 0;
  // The hook of DDP's backward, but with a rounding before the gradient's bucket is sent.
  const auto ready = [&](std::size_t parameter) {
    const Tensor& grad = training.model.parameters()[parameter].grad;
    on_host(program.stream, grad, [&](std::span<float> values) {
      for (float& value : values) {
        const float rounded = format.round(value);
        if (value != 0.0F) {
          gradients += 1;
          outcome.zeros += rounded == 0.0F ? 1 : 0;
          outcome.infinite += std::isinf(rounded) ? 1 : 0;
        }
        value = rounded / format.factor;
      }
    });
    reducer.mark_ready(parameter, program.stream);
  };
  for (std::size_t step = 0; step < kDeepSteps; ++step) {
    training.forward();
    scale(program.stream, training.loss.grad().numel(), format.factor,
          training.loss.grad().data());
    training.model.backward(training.loss.grad(), program.stream, Accumulate::no, ready);
    reducer.finalize(program.stream);
    training.step();
  }
  outcome.zeros /= gradients;
  outcome.infinite /= gradients;
  outcome.loss = training.loss_on_all();
  return outcome;
}

}  // namespace

bool break_fp16_underflow(const Program& program) {
  const auto group = small_group(program);
  std::array<Outcome, kFormats.size()> outcomes;
  program.console.line(
      fmt::format("  {} hidden layers of width {}, {} steps; shares of rank 0's gradients",
                  kDeepLayers, kDeepWidth, kDeepSteps));
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    const Format& format = kFormats[i];
    const Outcome o = outcomes[i] = train(program, *group, format);
    program.console.line(
        fmt::format("  {:<17}  smallest {:.0e}: {:5.1f} % became 0, {:4.1f} % infinite, "
                    "final loss {:.2f}",
                    format.name, smallest(format), 100 * o.zeros, 100 * o.infinite, o.loss));
  }
  const auto& [fp32, bf16, fp16, scaled, overflown] = outcomes;
  const double untrained = std::log(10.0);  // the loss of a model that finds 10 classes equal
  return fp32.zeros == 0 && bf16.zeros == 0 && fp16.zeros > 0.1 &&
         scaled.zeros < fp16.zeros / 10 && overflown.infinite > 0 &&
         overflown.loss > 0.99 * untrained;
}

}  // namespace dist
