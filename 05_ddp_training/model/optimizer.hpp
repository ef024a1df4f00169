// What this file adds: the step of an optimizer, and the choice between them.
// Builds on: Parameter (mlp). Look at: sgd.cpp and adam.cpp, which say what is the same for all
// elements of a step; the arithmetic of one element is in update_kernels.cpp.
//
// An optimizer's state is local to its rank. Replicas that start equal and see equal gradients
// keep equal states, without a message.
//
// A single number that is not finite, on one rank, in one gradient, would be in every parameter
// of every rank after the next step. So a step with such a gradient is skipped. Asked of the
// averaged gradients this needs no message: a sum is not finite if one of its terms is not, and
// all ranks have the same sums. And it needs no host: the device decides (update_kernels).
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/model/optimizer_options.hpp"
#include "05_ddp_training/model/update_kernels.hpp"
#include "common/buffer.hpp"

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

  // Moves every parameter along its gradient, in place, as far as the learning rate `lr` says;
  // does nothing if a gradient holds a NaN or an infinity.
  void step(double lr, const Stream& stream);

  // What became of the last step, once the work queued on its stream is done. Host memory,
  // valid until the step after the next.
  const UpdateState& outcome() const { return outcomes_.data()[calls_ % kOutcomes]; }
  // Where the last step's own work began.
  Event take_begin() { return std::move(begin_); }

  // With the parameters, these are all that a run must keep to go on where it stopped: how many
  // steps were taken, and the tensors that remember them. Both wait for the stream.
  std::size_t steps(const Stream& stream) const;
  void set_steps(std::size_t steps, const Stream& stream);
  std::span<const State> state() const { return state_; }

 protected:
  // `parameters` must outlive the optimizer.
  Optimizer(std::span<Parameter> parameters, OptimizerOptions options, const Stream& stream);

  // The step itself, for every parameter: each kernel asks `update` whether it is taken.
  virtual void update(double lr, const UpdateState* update, const Stream& stream) = 0;

  // A zeroed tensor beside each parameter.
  void remember(const std::string& name, const Stream& stream);

  std::span<Parameter> parameters_;
  OptimizerOptions options_;
  std::vector<State> state_;  // all tensors of one name, then all of the next

 private:
  static constexpr std::size_t kOutcomes = 2;  // of the last step and of the one before

  Buffer<double> squares_;        // on the device: of each parameter's gradient, ...
  Buffer<double> scratch_;        // ... and what adding them up takes
  Buffer<UpdateState> update_;    // on the device, one
  Buffer<UpdateState> outcomes_;  // copies of it on the host
  std::size_t calls_ = 0;
  Event begin_;
};

// The one that `options` name; throws Error if there is none. `parameters` must outlive it.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters,
                                          const Stream& stream);

}  // namespace dist
