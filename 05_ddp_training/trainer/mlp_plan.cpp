#include "05_ddp_training/trainer/mlp_plan.hpp"

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/join.hpp"

#include <numeric>

namespace dist {

void MlpPlan::declare(CommandLine& flags) {
  flags.list("--layers", widths_, "widths of the layers; ReLU between them");
  flags.check([this] {
    check_usage(widths_.size() >= 2, "--layers: needs at least an input and an output width");
  });
}

void MlpPlan::fit(const CommandLine& flags, std::size_t features, std::size_t classes) {
  if (!flags.given("--layers")) {
    widths_.front() = features;
    widths_.back() = classes;
  }
  check_usage(widths_.front() == features,
              "--layers: the input width is {}, but a sample has {} features", widths_.front(),
              features);
}

std::string MlpPlan::name() const {
  return join(widths_, "-");
}

std::size_t MlpPlan::activations() const {
  const std::size_t sum = std::accumulate(widths_.begin(), widths_.end(), std::size_t{0});
  return 2 * sum - inputs() - outputs();  // each layer's inputs and outputs
}

std::vector<ParameterShape> MlpPlan::parameters() const {
  return parameter_shapes(widths_);
}

std::string MlpPlan::flag_for(std::span<const ParameterShape> parameters) const {
  const std::vector<std::size_t> widths = widths_of(parameters);
  return widths.empty() ? "" : "--layers " + join(widths, ",");
}

std::unique_ptr<Module> MlpPlan::make(Generator& generator, const Stream& stream,
                                      Precision precision) const {
  return std::make_unique<Mlp>(widths_, generator, stream, precision);
}

}  // namespace dist
