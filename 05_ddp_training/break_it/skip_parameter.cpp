// Belief:  a single bias of ten numbers does not matter.
// Predict: all gradients are averaged except that of the last layer's bias. Do the other
//          parameters stay equal? Does the loss reveal it?
// You see: the replica check names the parameter and the step: 2.bias, after step 1. All others
//          stay bitwise equal, and two or three digits of the loss are correct.
// Why:     each rank has a different bias, so the ranks' gradients belong to different models.
//          The average is nevertheless equal on all ranks, so equal values need not be correct.
// In the wild: parameters that are used only in some passes, pytorch/pytorch#69031 and #128949.
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>

namespace dist {

bool break_skip_parameter(const Program& program) {
  const auto group = small_group(program);
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits, kQuickJob);
  SmallTraining right(program, digits, kQuickJob);
  DistributedDataParallel ddp(right.model(), *group, program.stream);
  const std::span<Parameter> all = job.model().parameters();
  const std::size_t skipped = all.size() - 1;
  Reducer reducer(all.first(skipped), *group, {});
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.forward();
    job.model().backward(job.grad(), program.stream, Accumulate::no,
                         [&](std::size_t parameter) {
                           if (parameter != skipped)
                             reducer.mark_ready(parameter, program.stream);
                         });
    reducer.finalize(program.stream);
    job.optimizer().step(job.lr(), program.stream);
    parting.look(program, job.model(), step);

    right.forward();
    ddp.backward(right.grad(), program.stream);
    right.optimizer().step(right.lr(), program.stream);
  }
  std::array losses{job.loss(), right.loss()};
  all_reduce<double>(program.comm, losses, ReduceOp::avg);
  const auto [loss, right_loss] = losses;
  const std::string others = first_difference(program.comm, all.first(skipped), program.stream);
  program.console.line("  the replicas " + parting.text());
  program.console.line(
      fmt::format("  all other parameters: {}",
                  others.empty() ? "equal on all ranks, bit for bit" : others));
  program.console.line(
      fmt::format("  loss in step {}: {:.4f}, or {:.4f} if no parameter is left out",
                  kSmallSteps, loss, right_loss));
  program.console.row({{"break", "skip-parameter"},
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
