// What this file adds: what a run knows of its model before there is one. Flags, data,
// checkpoints and the trainer take any Module; only mlp_plan knows that ours is a chain of
// layers.
#pragma once

#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/command_line.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist {

class Generator;

class ModelPlan {
 public:
  virtual ~ModelPlan() = default;

  virtual void declare(CommandLine& flags) = 0;
  // Adapts what was not given to samples of `features` numbers and `classes` classes. Throws
  // Error naming the flag if what was given does not fit.
  virtual void fit(const CommandLine& flags, std::size_t features, std::size_t classes) = 0;

  // Everything below is valid after fit().
  virtual std::string name() const = 0;         // for display: "784-512-10"
  virtual std::string flag() const = 0;         // that determines the model's size
  virtual std::size_t inputs() const = 0;       // numbers per sample; valid before fit()
  virtual std::size_t outputs() const = 0;      // logits per sample
  virtual std::size_t activations() const = 0;  // numbers per sample that forward keeps
  virtual std::vector<ParameterShape> parameters() const = 0;  // in registration order
  // The flag and value of a model with these parameters; empty if there is none.
  virtual std::string flag_for(std::span<const ParameterShape> parameters) const = 0;

  // Draws the first parameters.
  virtual std::unique_ptr<Module> make(Generator& generator, const Stream& stream,
                                       Precision precision) const = 0;
};

}  // namespace dist
