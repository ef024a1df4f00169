// What this file adds: in what one program that trains differs from another: its name, flags,
// model, data and rates. The rest of the trainer serves any of them.
#pragma once

#include "05_ddp_training/trainer/data.hpp"
#include "05_ddp_training/trainer/model_plan.hpp"
#include "05_ddp_training/trainer/options.hpp"

#include <cstddef>
#include <string>

namespace dist {

class Task {
 public:
  virtual ~Task() = default;

  virtual std::string program() const = 0;
  virtual std::string description() const = 0;
  virtual ModelPlan& model() = 0;
  virtual TrainingData& data() = 0;

  // Adds the program's flags, with checks, and sets the options for which it has none. If this
  // rank `writes`, checks the output files, too.
  virtual void declare(Options& options, CommandLine& flags, CommonOptions& common, int ranks,
                       bool writes) = 0;
  // The learning rate of a step.
  virtual double lr_at(const Options& options, int ranks, std::size_t step) const = 0;
  // What stands in a checkpoint about rates that depend on the number of steps: a run with
  // others cannot continue this one. Empty if they do not.
  virtual std::string schedule(const Options& options) const = 0;
};

}  // namespace dist
