#include "05_ddp_training/optimizer/optimizer.hpp"

#include "05_ddp_training/optimizer/adam.hpp"
#include "05_ddp_training/optimizer/sgd.hpp"
#include "common/check.hpp"

#include <algorithm>
#include <utility>

namespace dist {

Optimizer::Optimizer(std::span<Parameter> parameters, OptimizerOptions options,
                     const Stream& stream, Partners* partners)
    : parameters_(parameters),
      options_(std::move(options)),
      partners_(partners),
      update_(1, stream.device()),
      not_finite_({partners != nullptr ? partners->parameters() : parameters.size()},
                  stream.device()),
      blocks_done_(1, stream.device()),
      lr_(kMostStepsInFlight, stream.device(), Memory::pinned),
      reports_(kMostStepsInFlight, stream.device(), Memory::pinned) {
  set_steps(0, stream);
}

std::vector<UpdateTensors> Optimizer::tensors() const {
  std::vector<UpdateTensors> all;
  const std::size_t count = parameters_.size();
  const auto state = [&](std::size_t i) {
    return i < state_.size() ? state_[i].value.data() : nullptr;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters_[i];
    all.push_back({parameter.value.numel(), parameter.grad.data(), parameter.value.data(),
                   state(i), state(count + i),
                   partners_ != nullptr ? partners_->parameter_of(i) : i});
  }
  return all;
}

void Optimizer::step(const Stream& stream) {
  begin_ = stream.record_event();
  const auto [beta1, beta2] = options_.betas;
  const std::vector<UpdateTensors> all = tensors();
  std::span<double> squares;
  if (norm_) {
    norm_->queue_squares(all, stream);
    squares = norm_->squares();
  }
  std::function<void()> agree;
  if (partners_ != nullptr) agree = [&] { partners_->agree(not_finite_, squares, stream); };
  decide_update(stream, all,
                {.beta1 = beta1,
                 .beta2 = beta2,
                 .decoupled_decay = options_.name == "adamw" ? options_.weight_decay : 0.0,
                 .lr = lr_.data(),
                 .numbers = numbers_,
                 .not_finite = not_finite_.data(),
                 .parameters = not_finite_.numel(),
                 .squares = squares.empty() ? nullptr : squares.data(),
                 .ranks = squares.size(),
                 .most_norm = norm_ ? norm_->limit() : 0.0,
                 .blocks_done = blocks_done_.data(),
                 .state = update_.data(),
                 .reports = reports_.data()},
                agree);
  if (partners_ == nullptr) return update(all, update_.data(), stream);
  partners_->update_and_pass_on(
      [&](std::size_t first, std::size_t count) {
        update(std::span(all).subspan(first, count), update_.data(), stream);
      },
      stream);
}

Tensor Optimizer::state_of(const std::string& kind, const std::string& parameter) const {
  const auto found = std::ranges::find(state_, kind + "." + parameter, &State::name);
  return found == state_.end() ? Tensor() : found->value;
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

void Optimizer::remember(const std::string& name, const Stream& stream) {
  kinds_.push_back(name);
  for (const Parameter& parameter : parameters_) {
    state_.push_back(
        {name + "." + parameter.name, Tensor(parameter.value.shape(), stream.device())});
  }
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters, const Stream& stream,
                                          Partners* partners) {
  if (options.name == "sgd") {
    return std::make_unique<Sgd>(parameters, options, stream, partners);
  }
  if (options.name == "adam" || options.name == "adamw") {
    return std::make_unique<Adam>(parameters, options, stream, partners);
  }
  throw Error("--optimizer: unknown optimizer " + options.name);
}

}  // namespace dist
