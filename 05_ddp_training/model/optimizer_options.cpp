#include "05_ddp_training/model/optimizer_options.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

namespace dist {

void OptimizerOptions::declare(CommandLine& command_line) {
  command_line.choice("--optimizer", name, {"sgd", "adam", "adamw"}, "how parameters move");
  command_line.number("--lr", lr, 0.0, 1e6, "learning rate; sgd 0.01 by default");
}

void OptimizerOptions::declare_advanced(CommandLine& command_line) {
  command_line.number("--weight-decay", weight_decay, 0.0, 1e6,
                      "pull of parameters towards 0; adamw 0.01 by default");
  command_line.number("--momentum", momentum, 0.0, 1.0,
                      "of sgd: what a step keeps of the last");
  command_line.number("--dampening", dampening, 0.0, 1.0,
                      "of sgd: what momentum leaves out of a gradient");
  command_line.flag("--nesterov", nesterov, "of sgd: momentum that looks one step ahead");
  command_line.numbers("--betas", betas, 0.0, 1.0,
                       "of adam, adamw: what the running means keep per step");
  command_line.number("--eps", eps, 0.0, 1e6, "of adam, adamw: added to the divisor");
  command_line.number<std::size_t>("--warmup-steps", warmup_steps, 0, 1U << 30,
                                   "the learning rate rises linearly over so many steps");

  command_line.check([this, &command_line] {
    const bool sgd = name == "sgd";
    if (!command_line.given("--lr") && sgd) lr = 0.01;
    if (!command_line.given("--weight-decay") && name == "adamw") weight_decay = 0.01;
    // torch.optim.Adam has no argument momentum either. Ignored, it would seem to work.
    for (const char* flag : {"--momentum", "--dampening", "--nesterov"}) {
      if (!sgd && command_line.given(flag)) {
        throw Error(fmt::format("{}: is for --optimizer sgd, not for {}", flag, name));
      }
    }
    for (const char* flag : {"--betas", "--eps"}) {
      if (sgd && command_line.given(flag)) {
        throw Error(fmt::format("{}: is for --optimizer adam and adamw, not for sgd", flag));
      }
    }
    if (nesterov && momentum == 0.0) throw Error("--nesterov: needs --momentum above 0");
    if (nesterov && dampening != 0.0) throw Error("--nesterov: needs --dampening 0");
    if (dampening != 0.0 && momentum == 0.0) {
      throw Error("--dampening: needs --momentum above 0");
    }
    for (const double beta : betas) {
      // A running mean that takes in nothing stays 0, and so does what corrects it: 0 / 0.
      if (beta == 1.0) throw Error("--betas: 1 is not below 1");
    }
  });
}

}  // namespace dist
