// SGD and Adam over all parameters. The arithmetic of one element is in kernels.cpp; what is
// the same for all elements of a step is computed here, once, in double.
#include "05_ddp_training/optimizer.hpp"

#include "05_ddp_training/kernels.hpp"
#include "common/check.hpp"

#include <cmath>

namespace dist {

void Sgd::step(const Stream& stream) {
  for (const Parameter& parameter : parameters_) {
    sgd_step(stream, parameter.value.numel(), static_cast<float>(lr_), parameter.grad.data(),
             parameter.value.data());
  }
}

Adam::Adam(std::span<Parameter> parameters, double lr, const Stream& stream)
    : parameters_(parameters), lr_(lr) {
  for (const Parameter& parameter : parameters) {
    m_.emplace_back(parameter.value.shape(), stream.device());
    v_.emplace_back(parameter.value.shape(), stream.device());
  }
}

void Adam::step(const Stream& stream) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.999;
  constexpr double kEps = 1e-8;
  ++steps_;
  const AdamFactors factors{
      .beta1 = static_cast<float>(kBeta1),
      .one_minus_beta1 = static_cast<float>(1.0 - kBeta1),
      .beta2 = static_cast<float>(kBeta2),
      .one_minus_beta2 = static_cast<float>(1.0 - kBeta2),
      .step_size = static_cast<float>(lr_ / (1.0 - std::pow(kBeta1, steps_))),
      .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(kBeta2, steps_))),
      .eps = static_cast<float>(kEps)};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    adam_step(stream, parameter.value.numel(), factors, parameter.grad.data(),
              parameter.value.data(), m_[i].data(), v_[i].data());
  }
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, double lr,
                                          std::span<Parameter> parameters,
                                          const Stream& stream) {
  if (name == "sgd") return std::make_unique<Sgd>(parameters, lr);
  if (name == "adam") return std::make_unique<Adam>(parameters, lr, stream);
  throw Error("--optimizer: there is none called " + name);
}

}  // namespace dist
