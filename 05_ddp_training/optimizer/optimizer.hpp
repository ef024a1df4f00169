// What this file adds: an optimizer's step.
// Builds on: Parameter (mlp); adam, sgd and clip: the arithmetic.
// Look at: step, whose stages only queue work; Decide in optimizer.cpp, which makes a step
// depend on numbers that are known only to the device.
//
// An optimizer's state is local to its rank. Replicas that start equal and get equal gradients
// keep equal states without any messages.
#pragma once

#include "05_ddp_training/model/module.hpp"
#include "05_ddp_training/optimizer/clip.hpp"
#include "05_ddp_training/optimizer/optimizer_options.hpp"
#include "05_ddp_training/optimizer/update.hpp"
#include "common/buffer.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {

struct Decide;  // optimizer.cpp

class Optimizer {
 public:
  struct State {
    std::string name;  // PyTorch's name, then the parameter's: "exp_avg.0.weight"
    Tensor value;      // of the parameter's shape
  };

  // `parameters` must outlive this.
  Optimizer(OptimizerOptions options, std::span<Parameter> parameters, const Stream& stream);
  virtual ~Optimizer() = default;

  // Sets the learning rate of the next step. Called once before each step.
  void set_next_lr(double lr) { lr_.data()[calls_++ % kMostStepsInFlight] = lr; }
  // Moves every parameter along its gradient, in place. Does nothing if a gradient contains a
  // NaN or an infinity. Only queues work, which may be repeated (StepGraph). Throws Error if
  // options.clip_norm is set, but clip() was not called.
  virtual void step(const Stream& stream);
  void step(double lr, const Stream& stream) {
    set_next_lr(lr);
    step(stream);
  }

  // From now on, the gradients are scaled down where their norm is above options.clip_norm. The
  // norm's ranges are in the tensors that this optimizer updates.
  void clip(GradientNorm norm) { norm_.emplace(std::move(norm)); }

  // From now on, an update writes 1 to `diverged`, which is in the device's memory, if a new
  // parameter is not finite. The next step's report tells whether it is above 0. By then, the
  // ranks must have averaged it with the gradients, so that all of them learn it together.
  void write_divergence_to(double* diverged) { diverged_ = diverged; }

  // The report of the last step, valid once the work queued on the stream is done. It is in
  // host memory and is overwritten after kMostStepsInFlight steps.
  const UpdateState& report() const {
    return reports_.data()[(calls_ - 1) % kMostStepsInFlight];
  }
  // Returns the event that marks the beginning of the last step's own work. Only meaningful if
  // that work was queued by step() and not replayed (StepGraph).
  std::optional<Event> take_begin() { return std::exchange(begin_, std::nullopt); }

  // Together with the parameters, the number of steps taken and the state tensors are all that
  // is needed to resume. steps and set_steps wait for the stream.
  std::size_t steps(const Stream& stream) const;
  void set_steps(std::size_t steps, const Stream& stream);
  // One tensor for each parameter, or twice as many: first all of one kind.
  std::span<const State> state() const { return state_; }
  // What it updates: the model's parameters or, with --shard, this rank's parts of them.
  std::span<const Parameter> parameters() const { return parameters_; }

 protected:
  // The stages of a step, for one that does something in between. The first one raises the flag
  // of each parameter whose gradient is not finite and, to clip, adds up squares(). With
  // `decides`, it also decides; on a GPU, its last kernel does both.
  void check(const Stream& stream, bool decides);
  // Decides to take the step unless a flag is raised. Reports this, and lowers the flags.
  void decide(const Stream& stream);
  // Updates `count` parameters, unless the step is skipped.
  void update(std::size_t first, std::size_t count, const Stream& stream);

  const Tensor& flags() const { return flags_; }
  std::span<double> squares() const { return norm_ ? norm_->squares() : std::span<double>(); }

 private:
  Decide decision() const;

  OptimizerOptions options_;
  std::span<Parameter> parameters_;
  std::vector<State> state_;
  std::vector<UpdateTensors> tensors_;  // of the current step
  std::optional<GradientNorm> norm_;
  double* diverged_ = nullptr;
  // On the device; update_ and blocks_done_ have one element each.
  Buffer<UpdateState> update_;
  Tensor flags_;
  Buffer<unsigned> blocks_done_;
  // On the host, for the steps in flight.
  Buffer<double> lr_;
  Buffer<UpdateState> reports_;
  std::size_t calls_ = 0;
  std::optional<Event> begin_;
};

}  // namespace dist
