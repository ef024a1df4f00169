// Belief:  rank 0's loss is the loss of the whole batch.
// Predict: each of four ranks has a batch of 16. How far is rank 0's loss from that of all 64?
// You see: it is 10 to 50 % off in individual steps, and in some it rises while that of the
//          whole batch falls. The mean over the ranks is the loss of one process, up to
//          rounding.
// Why:     rank 0's loss covers only its samples: it has sqrt(N) times the noise of the mean.
//          If each rank uses its own loss for early stopping, the ranks decide differently.
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

namespace dist {

bool break_rank0_loss(const Program& program) {
  SmallTraining job(program, kQuickJob);
  // This model takes no steps itself. It receives the replicas' parameters before every step.
  SmallTraining whole = one_process(program, kQuickJob);
  Table table({"step", "rank 0", "mean", "one process"});
  std::size_t misled = 0;  // steps in which rank 0's loss or the mean rose, but not both
  double farthest = 0;     // largest relative distance of rank 0's loss from the mean
  double off = 0;          // largest relative distance of the mean from one process's loss
  double last_mine = 0, last_mean = 0;
  for (std::size_t step = 0; step < kSmallSteps; ++step) {
    for (std::size_t i = 0; i < job.model.parameters().size(); ++i) {
      copy(job.stream, whole.model.parameters()[i].value, job.model.parameters()[i].value);
    }
    whole.forward();
    job.right_step();

    double mine = job.loss.value(job.stream), mean = mine;
    broadcast(program.comm, std::span(&mine, 1), 0);  // rank 0's
    all_reduce(program.comm, std::span(&mean, 1), ReduceOp::avg);
    const double of_whole = whole.loss.value(whole.stream);
    farthest = worse(farthest, std::abs(mine - mean) / mean);
    off = worse(off, std::abs(of_whole - mean) / mean);
    misled += step > 0 && (mine > last_mine) != (mean > last_mean);
    last_mine = mine;
    last_mean = mean;
    if (step % 8 == 0) {
      table.add({std::to_string(step), fmt::format("{:.4f}", mine), fmt::format("{:.4f}", mean),
                 fmt::format("{:.4f}", of_whole)});
    }
  }
  table.print(program.console);
  say(program,
      "rank 0's loss is off by up to {:.0f} %, and in {} of {} steps it moved in the opposite "
      "direction",
      100 * farthest, misled, kSmallSteps - 1);
  say(program,
      "the relative difference between the mean and one process's loss is at most {:.0e}", off);
  return farthest > 0.1 && off < 1e-5 && misled > 0;
}

}  // namespace dist
