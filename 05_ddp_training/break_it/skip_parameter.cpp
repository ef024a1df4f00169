// Belief:  one bias of ten numbers will not matter.
// Predict: the gradient of the last layer's bias is left out of the average; all others are
//          averaged. Do the other parameters stay equal? Does the loss tell?
// You see: the check of the replicas names the layer and the step: 2.bias, after step 1. All
//          others stay equal to the bit, and the loss is the right one's in its first two or
//          three digits.
// Why:     each rank has a bias of its own, so no rank's gradients are those of a common model.
//          Averaged they are equal all the same: ranks that agree need not be right.
// In the wild: parameters that only some passes use stay out of step,
//          pytorch/pytorch#69031 and #128949.
#include "05_ddp_training/advanced/guards/replica_check.hpp"
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/trainer/across_ranks.hpp"

#include <fmt/core.h>

namespace dist {

bool break_skip_parameter(const BreakIt& with) {
  const auto group = small_group(with);
  const IdxDataset digits = small_digits(with);
  SmallTraining job(with, digits, kQuickJob);
  SmallTraining right(with, digits, kQuickJob);
  DistributedDataParallel ddp(right.model(), *group, with.stream);
  const std::span<Parameter> all = job.model().parameters();
  const std::size_t skipped = all.size() - 1;
  Reducer reducer(all.first(skipped), *group, {});
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.forward();
    job.model().backward(job.grad(), with.stream, Accumulate::no, [&](std::size_t parameter) {
      if (parameter != skipped) reducer.mark_ready(parameter, with.stream);
    });
    reducer.finalize(with.stream);
    job.optimizer().step(job.lr(), with.stream);
    parting.look(with, job.model(), step);

    right.forward();
    ddp.backward(right.grad(), with.stream);
    right.optimizer().step(right.lr(), with.stream);
  }
  const double loss = over_all_ranks(with.comm, job.loss(), false).mean_loss;
  const double right_loss = over_all_ranks(with.comm, right.loss(), false).mean_loss;
  const std::string others = first_difference(with.comm, all.first(skipped), with.stream);
  with.console.line("  the replicas " + parting.text());
  with.console.line(fmt::format("  all other parameters: {}",
                                others.empty() ? "equal to the bit, on all ranks" : others));
  with.console.line(fmt::format("  loss in step {}: {:.4f}, and {:.4f} with nothing left out",
                                kSmallSteps, loss, right_loss));
  with.console.row({{"break", "skip-parameter"},
                    {"skipped", all[skipped].name},
                    {"parted_after", parting.step},
                    {"difference", parting.difference},
                    {"others_equal", others.empty()},
                    {"loss", significant(loss)},
                    {"right_loss", significant(right_loss)}});
  return parting.step == 1 && parting.difference.starts_with(all[skipped].name + " of ") &&
         others.empty() && loss != right_loss;
}

}  // namespace dist
