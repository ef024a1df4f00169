// Belief:  DDP averages parameters, or could do so with the same result.
// Predict: every rank takes a step along its own gradient, and then the parameters are
//          averaged. Which of SGD, SGD with momentum and Adam give DDP's result? And every 4th
//          step?
// You see: with averaging after every step, SGD does, up to rounding, with or without momentum.
//          Adam does not. If the ranks average only every 4th step, none of them does.
// Why:     a step of SGD is linear in the gradients of all steps so far: the mean of the ranks'
//          steps is the step along the mean gradients. Adam divides by a square root. Over
//          several steps the ranks also compute their gradients at different parameters.
#include "05_ddp_training/small_training/small_training.hpp"

#include <cmath>
#include <utility>

namespace dist {

bool break_average_parameters(const Program& program) {
  // The distance from DDP if the ranks average their parameters in every `every`th step.
  const auto distance = [&](const OptimizerOptions& optimizer, std::size_t every) {
    SmallTraining job(program, {.optimizer = optimizer}),
        ddp(program, {.optimizer = optimizer});
    for (std::size_t step = 1; step <= 12; ++step) {
      job.backward();
      job.step();
      if (step % every == 0) {
        for (const Parameter& parameter : job.model.parameters()) {
          job.group->all_reduce(parameter.value, ReduceOp::avg, job.stream)->wait(job.stream);
        }
      }
      ddp.right_step();
    }
    return largest_difference(job, ddp);
  };
  constexpr double kRounding = 1e-5;  // over 12 steps; never exceeded so far
  Table table({"optimizer", "averaged every step", "every 4th step"});
  bool shown = true;
  for (const auto& [name, optimizer] :
       {std::pair{"sgd", OptimizerOptions{.kind = OptimizerKind::sgd, .lr = 0.1}},
        std::pair{"sgd, momentum 0.9",
                  OptimizerOptions{.kind = OptimizerKind::sgd, .lr = 0.1, .momentum = 0.9}},
        std::pair{"adam", OptimizerOptions{.kind = OptimizerKind::adam, .lr = 0.01}}}) {
    const double often = distance(optimizer, 1);
    const double rarely = distance(optimizer, 4);
    table.add({name, fmt::format("{:.1e}", often), fmt::format("{:.1e}", rarely)});
    shown =
        shown && std::isfinite(often + rarely) && rarely > 10 * kRounding &&
        (optimizer.kind == OptimizerKind::sgd ? often < kRounding : often > 100 * kRounding);
  }
  say(program, "  largest distance from DDP's parameters after 12 steps:");
  table.print(program.console);
  say(program,
      "anything below {:.0e} is rounding: SGD is linear in the gradients, with or without "
      "momentum; Adam is not",
      kRounding);
  return shown;
}

}  // namespace dist
