// Belief:  with N ranks, always multiply the learning rate by N.
// Predict: four epochs on N ranks take N times fewer steps than on one. What makes up for the
//          missing steps: N times the rate, or N times the rate after a warm-up of one epoch?
// You see: if the rate for one rank was small, N times the rate is far better than the same
//          rate. If it was large, N times the rate is far worse for both SGD and Adam, and a
//          warm-up does not help.
// Why:     fewer steps must go farther, but the loss, not the batch, limits the length of a
//          step; with longer steps the parameters oscillate. "N times" is a rule for the rates
//          between these extremes. It was found for SGD (lr_schedule.hpp names the source). For
//          Adam, whose steps do not grow with the gradient, it is only a habit.
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

#include <utility>

namespace dist {

bool break_lr(const Program& program) {
  constexpr std::size_t kEpochs = 4;
  const int ranks = program.comm.size();
  Table table({"optimizer", "rate of one", "1 rank", fmt::format("{} ranks, same rate", ranks),
               fmt::format("{} times", ranks), "and warmed up"});
  std::size_t better = 0, worse = 0;
  for (const auto& [kind, lr] : {std::pair{OptimizerKind::sgd, 0.1},
                                 {OptimizerKind::sgd, 0.5},
                                 {OptimizerKind::adam, 0.003},
                                 {OptimizerKind::adam, 0.02}}) {
    std::vector<std::string> row{std::string(facts(kind).name), fmt::format("{:g}", lr)};
    // The loss on the whole data set in the end.
    const auto train = [&](const Communicator& comm, int factor, std::size_t warmup_epochs) {
      SmallTraining job(program, {.optimizer = {.kind = kind, .lr = lr}}, comm);
      const std::size_t epoch = job.batches.per_epoch();
      const LrSchedule schedule = linearly_scaled(lr, factor, warmup_epochs * epoch);
      for (std::size_t step = 0; step < kEpochs * epoch; ++step) {
        job.lr = schedule.at(step);
        job.right_step();
      }
      const double loss = job.loss_on_all();
      row.push_back(fmt::format("{:.3f}", loss));
      return loss;
    };
    train(Communicator::alone(), 1, 0);
    const double same = train(program.comm, 1, 0);
    const double scaled = train(program.comm, ranks, 0);
    train(program.comm, ranks, 1);
    better += scaled < same / 1.5;
    worse += !(scaled < same * 1.5);  // a NaN is worse
    table.add(row);
  }
  say(program, "  loss on all {} samples after {} epochs:", SmallJob().samples, kEpochs);
  table.print(program.console);
  say(program, "{} times the rate: much better in {} of 4 rows, much worse in {}", ranks,
      better, worse);
  return better > 0 && worse > 0;
}

}  // namespace dist
