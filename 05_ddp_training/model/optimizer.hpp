// What this file adds: the step of an optimizer, and the choice between them.
// Builds on: Parameter (mlp). Look at: sgd.cpp and adam.cpp, which say what is the same for all
// elements of a step; the arithmetic of one element is in kernels.cpp.
//
// An optimizer's state is local to its rank. Replicas that start equal and see equal gradients
// keep equal states, without a message.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/model/optimizer_options.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist {

class Optimizer {
 public:
  struct State {
    std::string name;  // PyTorch's, then the parameter's: "exp_avg.0.weight"
    Tensor value;      // of the parameter's shape
  };

  virtual ~Optimizer() = default;

  // Moves every parameter along its gradient, in place, as far as the learning rate `lr` says.
  virtual void step(double lr, const Stream& stream) = 0;

  // With the parameters, these are all that a run must keep to go on where it stopped: how many
  // steps were taken, and the tensors that remember them.
  std::size_t steps() const { return steps_; }
  void set_steps(std::size_t steps) { steps_ = steps; }
  std::span<const State> state() const { return state_; }

 protected:
  // `parameters` must outlive the optimizer.
  explicit Optimizer(std::span<Parameter> parameters) : parameters_(parameters) {}

  // A zeroed tensor beside each parameter.
  void remember(const std::string& name, const Stream& stream) {
    for (const Parameter& parameter : parameters_) {
      state_.push_back(
          {name + "." + parameter.name, Tensor(parameter.value.shape(), stream.device())});
    }
  }

  std::span<Parameter> parameters_;
  std::vector<State> state_;  // all tensors of one name, then all of the next
  std::size_t steps_ = 0;
};

// The one that `options` name; throws Error if there is none. `parameters` must outlive it.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters,
                                          const Stream& stream);

}  // namespace dist
