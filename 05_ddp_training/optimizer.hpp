// What this file adds: SGD and Adam, with PyTorch's formulas and defaults.
//
// An optimizer's state is local to its rank. Replicas that start equal and see equal gradients
// keep equal states, without a message.
#pragma once

#include "05_ddp_training/mlp.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Moves every parameter along its gradient, in place.
  virtual void step(const Stream& stream) = 0;
};

// torch.optim.SGD without momentum.
class Sgd : public Optimizer {
 public:
  // `parameters` must outlive the optimizer, in both classes.
  Sgd(std::span<Parameter> parameters, double lr) : parameters_(parameters), lr_(lr) {}
  void step(const Stream& stream) override;

 private:
  std::span<Parameter> parameters_;
  double lr_;
};

// torch.optim.Adam with its default betas (0.9, 0.999) and eps (1e-8).
class Adam : public Optimizer {
 public:
  Adam(std::span<Parameter> parameters, double lr, const Stream& stream);
  void step(const Stream& stream) override;

 private:
  std::span<Parameter> parameters_;
  double lr_;
  int steps_ = 0;
  std::vector<Tensor> m_;  // one per parameter: running mean of the gradient
  std::vector<Tensor> v_;  // ... and of its square
};

// `name` is sgd or adam.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, double lr,
                                          std::span<Parameter> parameters,
                                          const Stream& stream);

}  // namespace dist
