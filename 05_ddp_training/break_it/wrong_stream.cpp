// Belief:  work queued is work done: the gradient was computed in the line before.
// Predict: the all-reduce of a bucket is told that its gradients come from another stream than
//          the one on which backward queues its work. That stream is idle. What is averaged?
// You see: what was in the bucket before: the last step's gradients. The parameters leave those
//          of the right run, in the first such step or one of the next. Mostly the old average
//          comes last, and all replicas are wrong together, equal to the bit: their hashes tell
//          nothing. Sometimes backward writes this rank's own gradients over it, and they
//          part. With emulated CUDA it shows every time, on a GPU whenever backward takes
//          longer than the call.
// Why:     the call waits for an event of the stream that it is given. An idle stream's event
//          is done already. No error, no hang: only the numbers know.
// In the wild: pytorch/pytorch#18465, a bug of the same kind in DDP itself.
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include <fmt/core.h>

namespace dist {

std::string no_queue(const Program& program) {
  if (!program.stream.device().is_cpu()) return "";
  return "on a CPU nothing is queued: it needs --device cuda, on a GPU or with "
         "-DDIST_CUDA=EMULATED";
}

bool break_wrong_stream(const Program& program) {
  const SmallJob small{.layers = {784, 256, 10}, .batch_size = 64};
  const Stream elsewhere(program.stream.device());
  const auto group = small_group(program);
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits, small);
  Reducer reducer(job.model().parameters(), *group, {});
  SmallTraining right(program, digits, small);
  DistributedDataParallel ddp(right.model(), *group, program.stream);
  constexpr std::size_t kRightSteps = 2;  // the buckets hold gradients
  constexpr std::size_t kSteps = 12;
  std::size_t first_wrong = 0;
  double distance = 0;
  Parting parting;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    const Stream& producer = step <= kRightSteps ? program.stream : elsewhere;
    job.forward();
    job.model().backward(
        job.grad(), program.stream, Accumulate::no,
        [&](std::size_t parameter) { reducer.mark_ready(parameter, producer); });
    reducer.finalize(program.stream);
    job.optimizer().step(job.lr(), program.stream);
    program.stream.synchronize();
    parting.look(program, job.model(), step);

    right.forward();
    ddp.backward(right.grad(), program.stream);
    right.optimizer().step(right.lr(), program.stream);
    distance = largest_difference(job.model(), right.model(), program.stream);
    if (first_wrong == 0 && distance > 0) first_wrong = step;
  }
  lines_in_rank_order(
      program.console, program.comm,
      fmt::format("  rank {}  wrong parameters since step {}, by up to {:.1e} after step {}",
                  program.comm.rank(), first_wrong, distance, kSteps));
  rows_in_rank_order(program.console, program.comm,
                     {{"break", "wrong-stream"},
                      {"rank", program.comm.rank()},
                      {"first_wrong", first_wrong},
                      {"distance", significant(distance)},
                      {"parted_after", parting.step}});
  program.console.line(fmt::format(
      "steps 1 to {} named the right stream, the others an idle one; the replicas {}",
      kRightSteps, parting.text()));
  return first_wrong > kRightSteps;
}

}  // namespace dist
