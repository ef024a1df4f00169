// Belief:  queued work is finished work, so the previous line has already computed the
//          gradient.
// Predict: the all-reduce of a bucket is given a stream other than the one on which backward
//          queues its work, and this other stream is idle. What does the all-reduce average?
// You see: the bucket's previous content, namely the last step's gradients. In the first step
//          with the wrong stream, or a few steps later, the parameters begin to differ from
//          those of the correct run. Usually the old average is written last, and all replicas
//          are wrong but bitwise equal, so their hashes reveal nothing. Sometimes backward
//          overwrites that average with this rank's own gradients, and the replicas diverge.
//          With emulated CUDA the symptom appears every time. On a GPU, it appears whenever
//          backward takes longer than the call, so a few large matrix products delay it.
// Why:     the call waits for an event of the stream that it is given, and an idle stream's
//          event is already complete. There is no error and no hang, but the numbers are wrong.
// In the wild: pytorch/pytorch#18465, a bug of the same kind in DDP itself.
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/gemm.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dist {

std::string no_queue(const Program& program) {
  if (!program.stream.device().is_cpu()) return "";
  return "nothing is queued on a CPU: this experiment needs --device cuda, on a GPU or with "
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
  // On a GPU: 17 thousand million operations each, a few tenths of a millisecond.
  constexpr std::size_t kWide = DIST_CUDA_EMULATED ? 8 : 2048;
  const Tensor factor({kWide, kWide}, program.stream.device());
  const Tensor product(factor.shape(), program.stream.device());
  constexpr std::size_t kRightSteps = 2;  // after these, the buckets hold gradients
  constexpr std::size_t kSteps = 12;
  std::size_t first_wrong = 0;
  double distance = 0;
  Parting parting;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    const Stream& producer = step <= kRightSteps ? program.stream : elsewhere;
    job.forward();
    for (int i = 0; i < 8; ++i) {
      gemm(program.stream, Transpose::no, Transpose::no, 1.0F, factor, factor, 0.0F, product);
    }
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
      fmt::format("  rank {}  parameters wrong since step {}, by up to {:.1e} after step {}",
                  program.comm.rank(), first_wrong, distance, kSteps));
  rows_in_rank_order(program.console, program.comm,
                     {{"break", "wrong-stream"},
                      {"rank", program.comm.rank()},
                      {"first_wrong", first_wrong},
                      {"distance", significant(distance)},
                      {"parted_after", parting.step}});
  program.console.line(fmt::format(
      "steps 1 to {} used the right stream, and the others an idle one; the replicas {}",
      kRightSteps, parting.text()));
  return first_wrong > kRightSteps;
}

}  // namespace dist
