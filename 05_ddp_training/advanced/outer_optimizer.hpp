// What this file adds: DiLoCo's second optimizer (Douillard et al., 2023), for local SGD
// (Stich, 2019). Ranks that have taken steps of their own differ. The way from their mean to
// the parameters after the last exchange is a gradient, equal on all ranks, and so is this
// optimizer's momentum.
#pragma once

#include "05_ddp_training/optimizer/optimizer.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace dist {

class OuterOptimizer {
 public:
  // `parameters` are equal on all ranks. They and `stream` must outlive this.
  OuterOptimizer(double lr, double momentum, std::span<const Parameter> parameters,
                 const Stream& stream)
      : lr_(lr), parameters_(parameters), stream_(stream) {
    for (const Parameter& p : parameters) {
      last_.push_back({p.name, Tensor(p.value.shape(), {}), Tensor(p.value.shape(), {})});
      copy(stream, last_.back().value, p.value);
    }
    const OptimizerOptions sgd{
        .kind = OptimizerKind::sgd, .momentum = momentum, .nesterov = momentum > 0};
    optimizer_.emplace(sgd, last_, stream);
  }
  OuterOptimizer(OuterOptimizer&&) = delete;

  // Called on every rank when the parameters hold the ranks' mean. Replaces it by the result of
  // a step from the last parameters. Sends nothing.
  void step() {
    for (std::size_t i = 0; i < last_.size(); ++i) {
      std::ranges::transform(last_[i].value.span(), parameters_[i].value.span(),
                             last_[i].grad.data(), std::minus());
    }
    optimizer_->step(lr_, stream_);
    for (std::size_t i = 0; i < last_.size(); ++i) {
      copy(stream_, parameters_[i].value, last_[i].value);
    }
  }

 private:
  double lr_;
  std::span<const Parameter> parameters_;
  const Stream& stream_;
  std::vector<Parameter> last_;  // after the last exchange
  std::optional<Optimizer> optimizer_;
};

}  // namespace dist
