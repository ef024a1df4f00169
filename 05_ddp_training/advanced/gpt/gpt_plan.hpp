// What this file adds: what the trainer asks about a GPT.
#pragma once

#include "05_ddp_training/advanced/gpt/gpt.hpp"
#include "05_ddp_training/trainer/model_plan.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace dist {

class GptPlan : public ModelPlan {
 public:
  const GptShape& shape() const { return shape_; }

  void declare(CommandLine&) override {}  // the text determines what is not fixed
  void fit(const CommandLine&, std::size_t /*features*/, std::size_t classes) override {
    shape_.vocabulary = classes;
  }

  std::string name() const override {
    return fmt::format("GPT of {} blocks, width {}", shape_.blocks, shape_.width);
  }
  std::string flag() const override { return "--text"; }
  std::size_t inputs() const override { return shape_.context; }
  std::size_t outputs() const override { return shape_.vocabulary; }
  std::size_t activations() const override {
    // Of a token in a block: two normalised x, each twice; queries, keys and values, and the
    // sum of values; the hidden layer, twice; two results; and attention's shares.
    const std::size_t block = (4 + 4 + 8 + 2) * shape_.width + shape_.heads * shape_.context;
    const std::size_t token = shape_.blocks * block + 3 * shape_.width + shape_.vocabulary;
    return shape_.context * token;
  }
  std::vector<ParameterShape> parameters() const override {
    Generator generator(0);
    const Stream stream(Device{});
    const Gpt model(shape_, generator, stream);
    std::vector<ParameterShape> all;
    for (const Parameter& each : model.parameters()) {
      all.push_back({each.name, each.value.shape()});
    }
    return all;
  }
  std::string flag_for(std::span<const ParameterShape>) const override { return ""; }

  std::unique_ptr<Module> make(Generator& generator, const Stream& stream,
                               Precision) const override {
    return std::make_unique<Gpt>(shape_, generator, stream);
  }

 private:
  GptShape shape_;
};

}  // namespace dist
