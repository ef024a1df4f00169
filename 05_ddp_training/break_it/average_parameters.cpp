// Belief:  DDP averages parameters, or could do so with the same result.
// Predict: every rank takes a step along its own gradient, with its own optimizer, and then the
//          parameters are averaged. Which of SGD, SGD with momentum and Adam give the same
//          result as DDP? What if the ranks average only every 4th step?
// You see: with averaging after every step, SGD gives DDP's parameters up to rounding, and so
//          does SGD with momentum, contrary to what is often said. Adam does not. If the ranks
//          average only every 4th step, none of them does. Moreover, each rank has a different
//          momentum buffer, so rank 0's checkpoint no longer describes all ranks.
// Why:     a step of SGD, with or without momentum, is linear in the gradients of all steps so
//          far: the mean of the ranks' steps is the step along the mean gradients. Adam divides
//          by a square root. Over several steps the ranks also compute their gradients at
//          different parameters.
// In the wild: horovod/horovod#651 asks exactly this question. pytorch/pytorch#59699 compares
//          both ways and blames momentum, which matters only with the longer interval.
#include "05_ddp_training/break_it/small_training.hpp"

#include <map>

namespace dist {
namespace {

// The distance from DDP's parameters if the ranks average their parameters every `every` steps.
double distance(const Program& program, ProcessGroup& group, const OptimizerOptions& optimizer,
                std::size_t every) {
  const SmallJob small{.optimizer = optimizer};
  SmallTraining right(program, small);
  DistributedDataParallel ddp(right.model, group, program.stream);
  SmallTraining job(program, small);
  for (std::size_t step = 1; step <= 12; ++step) {
    ddp.backward(right.forward(), program.stream);
    right.step();

    job.model.backward(job.forward(), program.stream);
    job.step();
    if (step % every != 0) continue;
    for (const Parameter& parameter : job.model.parameters()) {
      group.all_reduce(parameter.value, ReduceOp::avg, program.stream)->wait(program.stream);
    }
  }
  return largest_difference(job, right);
}

}  // namespace

bool break_average_parameters(const Program& program) {
  const auto group = small_group(program);
  constexpr double kRounding = 1e-5;  // over 12 steps; never exceeded so far
  Table table({"optimizer", "averaged every step", "every 4th step"});
  std::map<std::string, std::pair<double, double>> seen;
  for (const auto& [name, options] :
       {std::pair{"sgd", OptimizerOptions{.name = "sgd", .lr = 0.1}},
        std::pair{"sgd, momentum 0.9",
                  OptimizerOptions{.name = "sgd", .lr = 0.1, .momentum = 0.9}},
        std::pair{"adam", OptimizerOptions{.name = "adam", .lr = 0.01}}}) {
    const double often = distance(program, *group, options, 1);
    const double rarely = distance(program, *group, options, 4);
    seen[name] = {often, rarely};
    table.add({name, fmt::format("{:.1e}", often), fmt::format("{:.1e}", rarely)});
  }
  program.console.line("  largest distance from DDP's parameters after 12 steps:");
  table.print(program.console);
  program.console.line(fmt::format(
      "anything below {:.0e} is rounding: SGD is linear in the gradients, with or without "
      "momentum; Adam is not",
      kRounding));
  bool shown = seen["adam"].first > 100 * kRounding;
  for (const auto& [name, distances] : seen) {
    if (name != "adam") shown = shown && distances.first < kRounding;
    shown = shown && distances.second > 10 * kRounding;
  }
  return shown;
}

}  // namespace dist
