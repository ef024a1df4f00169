// Belief:  all 16-bit formats suit gradients equally well.
// Predict: every rank rounds the gradients of a deep, narrow model to 16 bits before they are
//          averaged. Which share becomes 0 in fp16, and in bf16? What if the loss, and with it
//          every gradient, is multiplied by 1024, and the rounded gradients are divided by
//          1024?
// You see: fp16 loses most gradients, and the model hardly learns. With the factor 1024 few are
//          lost; bf16 loses none without a factor. With too large a factor, gradients become
//          infinite, and no step changes the model.
// Why:     fp16 has 5 bits for the exponent, and its smallest number is 6e-8; a gradient that
//          passed many layers is often smaller. bf16 has the 8 exponent bits of fp32, at the
//          price of 3 bits of precision. The factor moves gradients into fp16's range: "Mixed
//          Precision Training", https://arxiv.org/abs/1710.03740, section 3.2.
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/model/bf16.hpp"

#include <array>

namespace dist {
namespace {

// The nearest fp16 number: 11 significant bits, fewer below 2^-14, and infinite above 65504.
float as_fp16(float value) {
  if (value == 0.0F || !std::isfinite(value)) return value;
  const float step = std::ldexp(1.0F, std::max(std::ilogb(value), -14) - 10);
  const float nearest = std::nearbyint(value / step) * step;
  return std::abs(nearest) > 65504.0F ? std::copysign(HUGE_VALF, value) : nearest;
}

struct Format {
  const char* name;
  double smallest;  // number above 0
  float (*round)(float);
  float factor = 1;  // of the loss
  // Seen while training: shares of this rank's gradients, and the loss on the whole data set.
  double zeros = 0, infinite = 0, loss = 0;
};

}  // namespace

bool break_fp16_underflow(const Program& program) {
  constexpr std::size_t kLayers = 16, kWidth = 32, kSteps = 128;
  SmallJob deep{.layers = std::vector(kLayers + 2, kWidth),
                .optimizer = {.name = "adam", .lr = 0.003}};
  deep.layers.front() = 784;
  deep.layers.back() = 10;
  std::array formats{
      Format{"fp32", 0x1p-149, [](float value) { return value; }},
      Format{"bf16", 0x1p-133, [](float value) { return to_float(to_bf16(value)); }},
      Format{"fp16", 0x1p-24, as_fp16}, Format{"fp16, loss x 1024", 0x1p-24, as_fp16, 1024},
      Format{"fp16, loss x 2^24", 0x1p-24, as_fp16, 0x1p24F}};
  say(program, "  {} hidden layers of width {}, {} steps; shares of rank 0's gradients",
      kLayers, kWidth, kSteps);
  for (Format& format : formats) {
    SmallTraining job(program, deep);
    double gradients = 0, zeros = 0, infinite = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      for (float& of_loss : job.forward().span()) of_loss *= format.factor;
      job.model.backward(job.loss.grad(), job.stream);
      for (const Parameter& parameter : job.model.parameters()) {
        for (float& value : parameter.grad.span()) {
          const float rounded = format.round(value);
          gradients += value != 0.0F;
          zeros += value != 0.0F && rounded == 0.0F;
          infinite += std::isinf(rounded);
          value = rounded / format.factor;
        }
      }
      job.average();
      job.step();
    }
    format.zeros = zeros / gradients;
    format.infinite = infinite / gradients;
    format.loss = job.loss_on_all();
    say(program,
        "  {:<17}  smallest {:.0e}: {:5.1f} % became 0, {:4.1f} % infinite, final loss {:.2f}",
        format.name, format.smallest, 100 * format.zeros, 100 * format.infinite, format.loss);
  }
  const auto& [fp32, bf16, fp16, scaled, overflown] = formats;
  const double untrained = std::log(10.0);  // the loss of a model that finds 10 classes equal
  return fp32.zeros == 0 && bf16.zeros == 0 && fp16.zeros > 0.1 &&
         scaled.zeros < fp16.zeros / 10 && overflown.infinite > 0 &&
         overflown.loss > 0.99 * untrained;
}

}  // namespace dist
