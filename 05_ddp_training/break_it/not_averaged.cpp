// Belief:  if N ranks learn, they train one model (no-all-reduce), and leaving out a single
//          bias of ten numbers does no harm (skip-parameter).
// Predict: all ranks start with the same parameters. No gradient is averaged, or all but that
//          of the last layer's bias. Does a rank's loss fall? Which parameters stay equal?
// You see: without averages, every rank's loss falls, about as fast as with DDP, but from step
//          1 on the hashes of the parameters all differ: these are N models, each trained on
//          1/N of the data. With all averages but one, the replica check names 2.bias after
//          step 1. The others stay equal to the bit, and two or three digits of the loss are
//          correct.
// Why:     the model's own backward knows nothing about ranks. Only that of the object that
//          wraps it sends messages, and the loss does not show which was called. If only the
//          bias differs, the ranks' gradients already belong to different models. Their average
//          is nevertheless equal on all ranks, so equal values need not be correct.
#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/break_it/small_training.hpp"

#include <array>

namespace dist {

bool break_no_all_reduce(const Program& program) {
  const auto group = small_group(program);
  SmallTraining job(program, kQuickJob);
  const DistributedDataParallel ddp(job.model, *group, program.stream);
  const double first = job.loss_on_all();
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.model.backward(job.forward(), program.stream);  // ddp.backward() would average
    job.step();
    parting.look(program, job.model, step);
  }
  const double last = job.loss_on_all();
  std::uint64_t hash = 0;
  for (const Parameter& parameter : job.model.parameters()) {
    hash = fingerprint(to_host(program.stream, parameter.value), hash);
  }
  lines_in_rank_order(
      program.console, program.comm,
      fmt::format("  rank {}  loss {:.3f} -> {:.3f} in {} steps, parameters {:016x}",
                  program.comm.rank(), first, last, kSmallSteps, hash));
  program.console.line("every loss falls; the replicas " + parting.text());
  return parting.step == 1 && last < 0.5 * first;
}

bool break_skip_parameter(const Program& program) {
  const auto group = small_group(program);
  SmallTraining job(program, kQuickJob), right(program, kQuickJob);
  DistributedDataParallel ddp(right.model, *group, program.stream);
  const std::span<Parameter> all = job.model.parameters();
  const std::size_t skipped = all.size() - 1;
  Reducer reducer(all.first(skipped), *group, {});
  const auto ready = [&](std::size_t parameter) {
    if (parameter != skipped) reducer.mark_ready(parameter, program.stream);
  };
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.model.backward(job.forward(), program.stream, Accumulate::no, ready);
    reducer.finalize(program.stream);
    job.step();
    parting.look(program, job.model, step);

    ddp.backward(right.forward(), program.stream);
    right.step();
  }
  std::array losses{job.loss.value(program.stream), right.loss.value(program.stream)};
  all_reduce<double>(program.comm, losses, ReduceOp::avg);
  const auto [loss, right_loss] = losses;
  const std::string others = first_difference(program.comm, all.first(skipped), program.stream);
  program.console.line("  the replicas " + parting.text());
  program.console.line("  all other parameters: " +
                       (others.empty() ? "equal on all ranks, bit for bit" : others));
  program.console.line(
      fmt::format("  loss in step {}: {:.4f}, or {:.4f} if no parameter is left out",
                  kSmallSteps, loss, right_loss));
  return parting.step == 1 && parting.difference.starts_with("2.bias of ") && others.empty() &&
         loss != right_loss && std::abs(loss - right_loss) < 0.05 * right_loss;
}

}  // namespace dist
