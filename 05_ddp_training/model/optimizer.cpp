#include "05_ddp_training/model/optimizer.hpp"

#include "05_ddp_training/model/adam.hpp"
#include "05_ddp_training/model/sgd.hpp"
#include "common/check.hpp"

#include <utility>

namespace dist {

Optimizer::Optimizer(std::span<Parameter> parameters, OptimizerOptions options,
                     const Stream& stream)
    : parameters_(parameters),
      options_(std::move(options)),
      squares_(parameters.size(), stream.device()),
      update_(1, stream.device()),
      outcomes_(kOutcomes, stream.device(), Memory::pinned) {
  std::size_t size = 0;
  for (const Parameter& parameter : parameters) {
    size += sum_of_squares_size(parameter.value.numel());
  }
  scratch_ = Buffer<double>(size, stream.device());
  set_steps(0, stream);
}

void Optimizer::step(double lr, const Stream& stream) {
  begin_ = stream.record_event();
  double* scratch = scratch_.data();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& grad = parameters_[i].grad;
    sum_of_squares(stream, grad.numel(), grad.data(), scratch, squares_.data() + i);
    scratch += sum_of_squares_size(grad.numel());
  }
  const auto [beta1, beta2] = options_.betas;
  decide_update(stream, parameters_.size(), squares_.data(), lr, beta1, beta2, update_.data());
  update(lr, update_.data(), stream);
  ++calls_;
  copy_bytes(stream, outcomes_.data() + calls_ % kOutcomes, update_.data(),
             sizeof(UpdateState));
}

std::size_t Optimizer::steps(const Stream& stream) const {
  UpdateState state;
  copy_bytes(stream, &state, update_.data(), sizeof state);
  stream.synchronize();
  return static_cast<std::size_t>(state.steps);
}

void Optimizer::set_steps(std::size_t steps, const Stream& stream) {
  UpdateState state;
  state.steps = static_cast<std::int64_t>(steps);
  copy_bytes(stream, update_.data(), &state, sizeof state);
  stream.synchronize();
}

void Optimizer::remember(const std::string& name, const Stream& stream) {
  for (const Parameter& parameter : parameters_) {
    state_.push_back(
        {name + "." + parameter.name, Tensor(parameter.value.shape(), stream.device())});
  }
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters,
                                          const Stream& stream) {
  if (options.name == "sgd") return std::make_unique<Sgd>(parameters, options, stream);
  if (options.name == "adam" || options.name == "adamw") {
    return std::make_unique<Adam>(parameters, options, stream);
  }
  throw Error("--optimizer: unknown optimizer " + options.name);
}

}  // namespace dist
