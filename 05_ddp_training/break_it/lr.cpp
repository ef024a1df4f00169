// Belief:  with N ranks, always multiply the learning rate by N.
// Predict: four epochs on N ranks take N times fewer steps than on one rank. What makes up for
//          the missing steps, with SGD and with Adam: N times the rate, or N times the rate
//          after a warm-up of one epoch?
// You see: the answer depends on the rate for one rank. If that rate was small, N times the
//          rate is far better than the same rate. If it was large, N times the rate is far
//          worse for both SGD and Adam, and a warm-up does not help. The table shows both cases
//          in this run.
// Why:     when there are fewer steps, each must go farther, but the loss, not the batch,
//          limits the length of a step; with longer steps the parameters oscillate. "N times"
//          is a rule for the rates between these extremes. It was found for SGD
//          (lr_schedule.hpp names the source). For Adam, whose steps do not grow with the
//          gradient, it is only a habit.
// In the wild: 3 times the rate on 3 times the GPUs gave accuracy 0: facebookresearch/detr#48.
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"

#include <utility>

namespace dist {
namespace {

constexpr std::size_t kEpochs = 4;

// The loss on the whole data set after kEpochs epochs.
double one_rank(const Program& program, const SmallJob& small) {
  SmallTraining job(program, small, Communicator::alone());
  const std::size_t steps = kEpochs * job.steps_per_epoch();
  for (std::size_t step = 0; step < steps; ++step) {
    job.model.backward(job.forward(), program.stream);
    job.step();
  }
  return job.loss_on_all();
}

double all_ranks(const Program& program, ProcessGroup& group, const SmallJob& small, int factor,
                 std::size_t warmup_epochs) {
  SmallTraining job(program, small);
  DistributedDataParallel ddp(job.model, group, program.stream);
  const std::size_t steps = kEpochs * job.steps_per_epoch();
  const LrSchedule schedule =
      linearly_scaled(job.lr, factor, warmup_epochs * job.steps_per_epoch());
  for (std::size_t step = 0; step < steps; ++step) {
    ddp.backward(job.forward(), program.stream);
    job.optimizer->step(schedule.at(step), program.stream);
  }
  return job.loss_on_all();
}

}  // namespace

bool break_lr(const Program& program) {
  const auto group = small_group(program);
  const int ranks = program.comm.size();
  Table table({"optimizer", "rate of one", "1 rank", fmt::format("{} ranks, same rate", ranks),
               fmt::format("{} times", ranks), "and warmed up"});
  std::size_t better = 0;
  std::size_t worse = 0;
  for (const auto& [name, lr] :
       {std::pair{"sgd", 0.1}, {"sgd", 0.5}, {"adam", 0.003}, {"adam", 0.02}}) {
    const SmallJob small{.optimizer = {.name = name, .lr = lr}};
    const double alone = one_rank(program, small);
    const double same = all_ranks(program, *group, small, 1, 0);
    const double scaled = all_ranks(program, *group, small, ranks, 0);
    const double warmed = all_ranks(program, *group, small, ranks, 1);
    better += scaled < same / 1.5;
    worse += !(scaled < same * 1.5);  // a NaN is worse
    table.add({name, fmt::format("{:g}", lr), fmt::format("{:.3f}", alone),
               fmt::format("{:.3f}", same), fmt::format("{:.3f}", scaled),
               fmt::format("{:.3f}", warmed)});
  }
  program.console.line(
      fmt::format("  loss on all {} samples after {} epochs:", SmallJob().samples, kEpochs));
  table.print(program.console);
  program.console.line(
      fmt::format("{} times the rate: much better in {} of 4 rows, much worse in {}", ranks,
                  better, worse));
  return better > 0 && worse > 0;
}

}  // namespace dist
