#include "05_ddp_training/optimizer/optimizer_options.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace dist {

void OptimizerOptions::declare(CommandLine& command_line) {
  command_line.choice("--optimizer", name, {"sgd", "adam", "adamw"}, "optimizer");
  command_line.number("--lr", lr, 0.0, 1e6, "learning rate; default for sgd: 0.01");
}

void OptimizerOptions::declare_advanced(CommandLine& command_line) {
  command_line.number("--weight-decay", weight_decay, 0.0, 1e6,
                      "pulls parameters towards 0; default for adamw: 0.01");
  command_line.number("--momentum", momentum, 0.0, 1.0,
                      "sgd: fraction of the previous step that is kept");
  command_line.number("--dampening", dampening, 0.0, 1.0,
                      "sgd: fraction of a gradient that momentum ignores");
  command_line.flag("--nesterov", nesterov, "sgd: momentum that looks one step ahead");
  command_line.numbers("--betas", betas, 0.0, 1.0,
                       "adam, adamw: fraction of the running means kept per step");
  command_line.number("--eps", eps, 0.0, 1e6, "adam, adamw: added to the divisor");
  command_line.number<std::size_t>("--warmup-steps", warmup_steps, 0, 1U << 30,
                                   "the learning rate rises linearly over this many steps");
  command_line.number("--clip-norm", clip_norm, 0.0, 1e30,
                      "scales gradients down to this norm of all of them; 0: never");

  command_line.check([this, &command_line] {
    const bool sgd = name == "sgd";
    if (!command_line.given("--lr") && sgd) lr = 0.01;
    if (!command_line.given("--weight-decay") && name == "adamw") weight_decay = 0.01;
    // Like torch.optim.Adam, reject momentum. If momentum were ignored, it would seem to work.
    const auto is_for = [&](const char* flag, bool is_right, const char* optimizer) {
      if (is_right || !command_line.given(flag)) return;
      throw Error(fmt::format("{}: is for --optimizer {}, not for {}", flag, optimizer, name));
    };
    for (const char* flag : {"--momentum", "--dampening", "--nesterov"})
      is_for(flag, sgd, "sgd");
    for (const char* flag : {"--betas", "--eps"}) is_for(flag, !sgd, "adam and adamw");
    if (nesterov && momentum == 0.0) throw Error("--nesterov: needs --momentum above 0");
    if (nesterov && dampening != 0.0) throw Error("--nesterov: needs --dampening 0");
    if (dampening != 0.0 && momentum == 0.0) {
      throw Error("--dampening: needs --momentum above 0");
    }
    // If beta is 1, the running mean and its correction both stay 0, and the result is 0 / 0.
    if (std::ranges::find(betas, 1.0) != betas.end()) throw Error("--betas: must be below 1");
  });
}

}  // namespace dist
