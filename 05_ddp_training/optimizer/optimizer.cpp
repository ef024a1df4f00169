#include "05_ddp_training/optimizer/optimizer.hpp"

#include "05_ddp_training/optimizer/adam.hpp"
#include "05_ddp_training/optimizer/sgd.hpp"
#include "common/check.hpp"

#include <utility>

namespace dist {

Optimizer::Optimizer(OptimizerOptions options, std::span<Parameter> parameters,
                     const Stream& stream)
    : options_(std::move(options)),
      parameters_(parameters),
      update_(1, stream.device()),
      flags_({parameters.size()}, stream.device()),
      blocks_done_(1, stream.device()),
      lr_(kMostStepsInFlight, stream.device(), Memory::pinned),
      reports_(kMostStepsInFlight, stream.device(), Memory::pinned) {
  std::vector<std::string> kinds;
  if (options_.name == "adam" || options_.name == "adamw") {
    kinds = {"exp_avg", "exp_avg_sq"};
  } else if (options_.name != "sgd") {
    throw Error("--optimizer: unknown optimizer " + options_.name);
  } else if (options_.momentum != 0.0) {
    kinds = {"momentum_buffer"};
  }
  for (const std::string& kind : kinds) {
    for (const Parameter& parameter : parameters) {
      state_.push_back(
          {kind + "." + parameter.name, Tensor(parameter.value.shape(), stream.device())});
    }
  }
  set_steps(0, stream);
}

void Optimizer::check(const Stream& stream, bool decides) {
  begin_ = stream.record_event();
  tensors_.clear();
  const std::size_t count = parameters_.size();
  const auto state = [&](std::size_t i) {
    return i < state_.size() ? state_[i].value.data() : nullptr;
  };
  for (std::size_t p = 0; p < count; ++p) {
    const auto& [name, value, grad] = parameters_[p];
    tensors_.push_back(
        {value.numel(), grad.data(), value.data(), state(p), state(count + p), p});
  }
  if (norm_) norm_->queue_squares(tensors_, stream);
  check_finite(stream, tensors_, decision(), decides);
}

Decision Optimizer::decision() const {
  return {.lr = lr_.data(),
          .reports = reports_.data(),
          .state = update_.data(),
          .not_finite = {flags_.data(), flags_.numel()},
          .squares = squares(),
          .most_norm = options_.clip_norm,
          .beta1 = options_.betas[0],
          .beta2 = options_.betas[1],
          .decoupled_decay = options_.name == "adamw" ? options_.weight_decay : 0.0,
          .numbers = numbers_,
          .blocks_done = blocks_done_.data()};
}

void Optimizer::step(const Stream& stream) {
  check(stream, /*decides=*/true);
  update(0, parameters_.size(), stream);
}

void Optimizer::decide(const Stream& stream) {
  dist::decide(stream, decision());
}

void Optimizer::update(std::size_t first, std::size_t count, const Stream& stream) {
  const auto some = std::span(tensors_).subspan(first, count);
  if (options_.name == "sgd") {
    sgd_step(stream, some, options_, update_.data());
  } else {
    adam_step(stream, some, options_, update_.data());
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

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters,
                                          const Stream& stream) {
  return std::make_unique<Optimizer>(options, parameters, stream);
}

}  // namespace dist
