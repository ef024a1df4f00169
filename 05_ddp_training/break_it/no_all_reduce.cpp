// Belief:  if N ranks learn, they train one model.
// Predict: all start with the same parameters, and each takes steps along its own gradients.
//          Does a rank's loss fall? Are the models equal after the first step?
// You see: every rank's loss falls, about as fast as with DDP. But from step 1 on the hashes of
//          the parameters all differ: these are N models, each trained on 1/N of the data.
// Why:     the model's own backward knows nothing about ranks. Only the backward of the object
//          that wraps the model sends messages, and the loss does not show which backward was
//          called.
// In the wild: a model that is moved to the CPU and back after being wrapped trains without any
//          messages, pytorch/pytorch#104336.
#include "02_broadcast/fingerprint.hpp"
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dist {

bool break_no_all_reduce(const Program& program) {
  const auto group = small_group(program);
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits, kQuickJob);
  const DistributedDataParallel ddp(job.model(), *group, program.stream);
  const double first = job.loss_on_all();
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.forward();
    job.model().backward(job.grad(), program.stream);  // ddp.backward() would average
    job.optimizer().step(job.lr(), program.stream);
    parting.look(program, job.model(), step);
  }
  const double last = job.loss_on_all();
  std::uint64_t all = 0;
  for (const Parameter& parameter : job.model().parameters()) {
    all = fingerprint(to_host(program.stream, parameter.value), all);
  }
  const std::string hash = fmt::format("{:016x}", all);
  lines_in_rank_order(program.console, program.comm,
                      fmt::format("  rank {}  loss {:.3f} -> {:.3f} in {} steps, parameters {}",
                                  program.comm.rank(), first, last, kSmallSteps, hash));
  rows_in_rank_order(program.console, program.comm,
                     {{"break", "no-all-reduce"},
                      {"rank", program.comm.rank()},
                      {"first_loss", significant(first)},
                      {"last_loss", significant(last)},
                      {"hash", hash},
                      {"parted_after", parting.step}});
  program.console.line("every loss falls; the replicas " + parting.text());
  return parting.step == 1 && last < 0.5 * first;
}

}  // namespace dist
