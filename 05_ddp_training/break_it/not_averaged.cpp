// Belief:  if N ranks learn, they train one model (no-all-reduce), and leaving out a single
//          bias of ten numbers does no harm (skip-parameter).
// Predict: no gradient is averaged, or all but that of the last layer's bias. Does a rank's
//          loss fall? Which parameters stay equal?
// You see: without averages, every loss falls, about as fast as with DDP, but the hashes of the
//          parameters differ from step 1 on: these are N models, each trained on 1/N of the
//          data. With all averages but one, the replica check names 2.bias after step 1. The
//          others stay equal to the bit, and two or three digits of the loss are correct.
// Why:     the loss does not show whether gradients were averaged. If only the bias differs,
//          the ranks' gradients already belong to different models, but their average is equal
//          on all ranks. Equal values need not be correct.
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/hash.hpp"

#include <array>

namespace dist {

bool break_no_all_reduce(const Program& program) {
  SmallTraining job(program, kQuickJob);
  const double first = job.loss_on_all();
  for (std::size_t step = 0; step < kSmallSteps; ++step) {
    job.backward();
    job.step();  // without job.average()
    job.compare_replicas();
  }
  const double last = job.loss_on_all();
  std::uint64_t hash = 0;
  for (const Parameter& parameter : job.model.parameters()) {
    hash = hash_of(parameter.value.span(), hash);
  }
  lines_in_rank_order(program.console, program.comm,
                      "  rank {}  loss {:.3f} -> {:.3f} in {} steps, parameters {:016x}",
                      program.comm.rank(), first, last, kSmallSteps, hash);
  say(program, "every loss falls; the replicas {}", job.replicas);
  return job.replicas.starts_with("parted after step 1,") && last < 0.5 * first;
}

bool break_skip_parameter(const Program& program) {
  SmallTraining job(program, kQuickJob), right(program, kQuickJob);
  const std::span<Parameter> all = job.model.parameters();
  const std::span<Parameter> averaged = all.first(all.size() - 1);
  job.reducer.emplace(averaged, plan_buckets(averaged, {}), *job.group);
  for (std::size_t step = 0; step < kSmallSteps; ++step) {
    job.right_step();  // but its reducer averages only these
    job.compare_replicas();
    right.right_step();
  }
  std::array losses{job.loss.value(job.stream), right.loss.value(right.stream)};
  all_reduce<double>(program.comm, losses, ReduceOp::avg);
  const auto [loss, right_loss] = losses;
  const std::string others = first_difference(program.comm, averaged, job.stream);
  say(program, "  the replicas {}", job.replicas);
  say(program, "  all other parameters: {}",
      others.empty() ? "equal on all ranks, bit for bit" : others);
  say(program, "  loss in step {}: {:.4f}, or {:.4f} if no parameter is left out", kSmallSteps,
      loss, right_loss);
  return job.replicas.starts_with("parted after step 1, first in 2.bias of ") &&
         others.empty() && loss != right_loss &&
         std::abs(loss - right_loss) < 0.05 * right_loss;
}

}  // namespace dist
