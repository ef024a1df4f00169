// What this file adds: the model of ddp_training, an Mlp of the widths that --layers gives.
#pragma once

#include "05_ddp_training/trainer/model_plan.hpp"

namespace dist {

class MlpPlan : public ModelPlan {
 public:
  void declare(CommandLine& flags) override;
  void fit(const CommandLine& flags, std::size_t features, std::size_t classes) override;

  std::string name() const override;
  std::string flag() const override { return "--layers"; }
  std::size_t inputs() const override { return widths_.front(); }
  std::size_t outputs() const override { return widths_.back(); }
  std::size_t activations() const override;
  std::vector<ParameterShape> parameters() const override;
  std::string flag_for(std::span<const ParameterShape> parameters) const override;

  std::unique_ptr<Module> make(Generator& generator, const Stream& stream,
                               Precision precision) const override;

 private:
  std::vector<std::size_t> widths_{784, 512, 512, 512, 10};
};

}  // namespace dist
