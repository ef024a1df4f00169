// Belief:  noise that is harmless before the average is harmless after it.
// Predict: the average is equal on all ranks. Then every rank adds noise of its own, too small
//          to notice in a gradient. When do the replicas diverge?
// You see: after step 1. The distance between them grows with every step, but the loss does not
//          show it.
// Why:     changes made after the average are never averaged again, so the difference stays in
//          the parameters. All ranks must therefore do the same computation between one
//          all-reduce and the next, including clipping, the learning rate, weight decay and
//          skipping a step.
// In the wild: a gradient scaler with a different scale per rank changes the averaged
//          gradients, pytorch/pytorch#136009. Compare gradient-noise.
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dist {
namespace {

// Called on all ranks. Returns the largest distance of any rank's parameters from rank 0's.
double spread(const Program& program, const Mlp& model) {
  double largest = 0;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<float> mine = to_host(program.stream, parameter.value);
    std::vector<float> first = mine;
    broadcast<float>(program.comm, first, 0);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(mine[i] - first[i])));
    }
  }
  std::vector<double> of_all{largest};
  all_reduce<double>(program.comm, of_all, ReduceOp::max,
                     AllReduceAlgorithm::recursive_doubling);
  return of_all[0];
}

}  // namespace

bool break_update_noise(const Program& program) {
  constexpr double kNoise = 1e-6;
  const auto group = small_group(program);
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits);
  DistributedDataParallel ddp(job.model(), *group, program.stream);
  Generator noise(program.common.seed + 1 + static_cast<std::uint64_t>(program.comm.rank()));
  Parting parting;
  double early = 0;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.forward();
    ddp.backward(job.grad(), program.stream);
    for (const Parameter& parameter : job.model().parameters()) {
      add_noise(parameter.grad, kNoise, noise, program.stream);
    }
    job.optimizer().step(job.lr(), program.stream);
    parting.look(program, job.model(), step);
    if (step == 1) early = spread(program, job.model());
  }
  const double late = spread(program, job.model());
  program.console.line(
      fmt::format("  noise of {} in the averaged gradients, different on every rank", kNoise));
  program.console.line("  the replicas " + parting.text());
  program.console.line(fmt::format(
      "  distance from rank 0's parameters: up to {:.1e} after step 1, {:.1e} after step {}",
      early, late, kSmallSteps));
  program.console.row({{"break", "update-noise"},
                       {"steps", kSmallSteps},
                       {"parted_after", parting.step},
                       {"spread_first", significant(early)},
                       {"spread_last", significant(late)}});
  return parting.step == 1 && late > early;
}

}  // namespace dist
