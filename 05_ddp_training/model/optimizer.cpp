#include "05_ddp_training/model/optimizer.hpp"

#include "05_ddp_training/model/adam.hpp"
#include "05_ddp_training/model/sgd.hpp"
#include "common/check.hpp"

namespace dist {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<Parameter> parameters,
                                          const Stream& stream) {
  if (options.name == "sgd") return std::make_unique<Sgd>(parameters, options, stream);
  if (options.name == "adam" || options.name == "adamw") {
    return std::make_unique<Adam>(parameters, options, stream);
  }
  throw Error("--optimizer: there is none called " + options.name);
}

}  // namespace dist
