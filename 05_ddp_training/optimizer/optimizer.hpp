// What this file adds: an optimizer's step, and the choice of an optimizer.
// Builds on: Parameter (mlp).
// Look at: sgd.cpp and adam.cpp, which compute the factors that all elements share in a step.
// The arithmetic of one element is in update_kernels.cpp.
//
// An optimizer's state is local to its rank. Replicas that start equal and get equal gradients
// keep equal states without any messages.
//
// A single number that is not finite, in one gradient of one rank, could spread to the
// parameters of all ranks. A step with such a gradient is therefore skipped. Testing the
// averaged gradients needs no messages: a sum is not finite if one of its terms is not, and all
// ranks have the same sums. The device makes this decision without the host (update_kernels).
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/gradient_norm.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "05_ddp_training/optimizer/update_kernels.hpp"
#include "common/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

// The other ranks, for an optimizer that updates only this rank's part of the parameters
// (sharding/).
class Partners {
 public:
  virtual ~Partners() = default;

  // The number of parameters, and the number of the one that `part` belongs to.
  virtual std::size_t parameters() const = 0;
  virtual std::size_t parameter_of(std::size_t part) const = 0;
  // Called on all ranks. Queues work after which all ranks have the largest of their flags and
  // the means of their squares.
  virtual void agree(const Tensor& flags, std::span<double> squares, const Stream& stream) = 0;
  // Called on all ranks. Calls update(first, count) until all parts are updated, and queues
  // work that passes them on to the other ranks.
  using Update = std::function<void(std::size_t first, std::size_t count)>;
  virtual void update_and_pass_on(const Update& update, const Stream& stream) = 0;
};

class Optimizer {
 public:
  struct State {
    std::string name;  // PyTorch's name, then the parameter's: "exp_avg.0.weight"
    Tensor value;      // of the parameter's shape
  };

  virtual ~Optimizer() = default;

  // Sets the learning rate of the next step. Called once before each step.
  void set_next_lr(double lr) { lr_.data()[calls_++ % kMostStepsInFlight] = lr; }
  // Moves every parameter along its gradient, in place. Does nothing if a gradient contains a
  // NaN or an infinity. Only queues work, which may be repeated (StepGraph).
  void step(const Stream& stream);
  void step(double lr, const Stream& stream) {
    set_next_lr(lr);
    step(stream);
  }

  // From now on, the gradients are scaled down where their norm is above its limit. The norm's
  // ranges are in the tensors that this optimizer updates.
  void clip(GradientNorm norm) { norm_.emplace(std::move(norm)); }

  // The step's loss (StepLoss) is part of its report if `numbers` is set. It is on the device.
  void report_also(std::span<const double> numbers) { numbers_ = numbers.data(); }
  // The report of the last step, valid once the work queued on the stream is done. It is in
  // host memory and is overwritten after kMostStepsInFlight steps.
  const StepReport& report() const {
    return reports_.data()[(calls_ - 1) % kMostStepsInFlight];
  }
  // Returns the event that marks the beginning of the last step's own work. Only meaningful if
  // that work was queued by step() and not replayed (StepGraph).
  std::optional<Event> take_begin() { return std::exchange(begin_, std::nullopt); }

  // Together with the parameters, the number of steps taken and the state tensors are all that
  // is needed to resume. steps and set_steps wait for the stream.
  std::size_t steps(const Stream& stream) const;
  void set_steps(std::size_t steps, const Stream& stream);
  std::span<const State> state() const { return state_; }
  // The names of what is remembered of each parameter: "exp_avg", "exp_avg_sq".
  std::span<const std::string> kinds() const { return kinds_; }
  // The state of this kind and parameter; empty if this rank has none of it.
  Tensor state_of(const std::string& kind, const std::string& parameter) const;

 protected:
  // `parameters` and `partners`, if any, must outlive the optimizer.
  Optimizer(std::span<Parameter> parameters, OptimizerOptions options, const Stream& stream,
            Partners* partners);

  // Updates every parameter. The kernels check `state` to see whether the step is skipped.
  virtual void update(std::span<const UpdateTensors> tensors, const UpdateState* state,
                      const Stream& stream) = 0;

  // Adds a zeroed state tensor for each parameter.
  void remember(const std::string& name, const Stream& stream);

  std::span<Parameter> parameters_;
  OptimizerOptions options_;
  std::vector<State> state_;  // all tensors of one kind, then all of the next
  std::vector<std::string> kinds_;

 private:
  std::vector<UpdateTensors> tensors() const;

  Partners* partners_;  // null: this rank updates all parameters
  // On the device; update_ and blocks_done_ have one element each.
  Buffer<UpdateState> update_;
  Tensor not_finite_;
  std::optional<GradientNorm> norm_;
  Buffer<unsigned> blocks_done_;
  const double* numbers_ = nullptr;
  // On the host, for the steps in flight.
  Buffer<double> lr_;
  Buffer<StepReport> reports_;
  std::size_t calls_ = 0;
  std::optional<Event> begin_;
};

// Creates the optimizer named in `options`. Throws Error if the name is unknown. `parameters`
// and `partners` must outlive the result. With `partners`, `parameters` are this rank's parts.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters, const Stream& stream,
                                          Partners* partners = nullptr);

}  // namespace dist
