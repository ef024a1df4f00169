// Belief:  overlap is free: while the all-reduces run in the background, the optimizer may
//          step.
// Predict: every gradient's all-reduce was started, but nobody waited for the last one. What
//          does the optimizer find in that gradient?
// You see: this rank's own gradient. After step 1 the replicas differ in 0.weight, and they end
//          thousands of times farther from one process with the whole batch than rounding does.
// Why:     between the start of an all-reduce and wait(), the tensor belongs to the process
//          group. The all-reduce may finish at once or only in wait(), and on a fast machine a
//          test sees only the first case. Here the last one runs as late as it may: in wait().
#include "05_ddp_training/small_training/small_training.hpp"

#include <future>
#include <utility>

namespace dist {

bool break_no_wait(const Program& program) {
  const auto train = [&](const char* name, bool waits) {
    SmallTraining job(program);
    SmallTraining twin = one_process(program);
    const auto average = [&](const Parameter& parameter) {
      job.group->all_reduce(parameter.grad, ReduceOp::avg, job.stream)->wait(job.stream);
    };
    const std::span<const Parameter> all = job.model.parameters();
    for (std::size_t step = 0; step < kSmallSteps; ++step) {
      job.backward();
      for (const Parameter& parameter : all.subspan(1)) average(parameter);
      // A deferred call runs when somebody waits for it.
      const auto last = std::async(std::launch::deferred, [&] { average(all[0]); });
      if (waits) last.wait();
      job.step();
      last.wait();  // too late, unless it was done before
      job.compare_replicas();
      twin.right_step();
    }
    const double distance = largest_difference(job, twin);
    say(program,
        "  {}: up to {:.1e} away from one process with the whole batch; the replicas {}", name,
        distance, job.replicas);
    return std::pair(job.replicas, distance);
  };
  const auto [equal, rounding] = train("wait, then step", true);
  const auto [parted, distance] = train("step, then wait", false);
  return equal == kEqual && parted.starts_with("parted after step 1, first in 0.weight ") &&
         distance > 100 * rounding;
}

}  // namespace dist
