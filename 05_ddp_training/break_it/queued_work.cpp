// Belief:  queued work is finished work: the previous line has already computed the gradient
//          (wrong-stream), and a copy is done when the call returns (no-sync, which is not
//          about DDP's no_sync()).
// Predict: the all-reduce of a bucket waits for a stream other than the one on which backward
//          queues its work, and this other stream is idle. What does it average? And if the
//          last weights are copied to pinned host memory after every step, and read on the next
//          line, which step do they belong to?
// You see: the all-reduce averages the bucket's previous content, namely the last step's
//          gradients. Usually the old average is written last, and all replicas are wrong but
//          bitwise equal, so their hashes reveal nothing. Sometimes backward overwrites that
//          average with this rank's own gradients, and the replicas diverge. The weights that
//          the host reads belong to an earlier step, usually the previous one. With emulated
//          CUDA the symptoms appear every time; on a GPU, whenever the step takes longer than
//          queueing it, so a few large matrix products delay wrong-stream's.
// Why:     both calls only queue, and return. The all-reduce waits for an event of the stream
//          that it is given, and an idle stream's event is already complete. Only
//          stream.synchronize() or an event shows the host that a copy is done. There is no
//          error and no hang, but the numbers are wrong.
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "common/buffer.hpp"

namespace dist {
namespace {

const SmallJob kWideJob{.layers = {784, 256, 10}, .batch_size = 64};

}  // namespace

bool break_wrong_stream(const Program& program) {
  const Stream elsewhere(program.stream.device());
  const auto group = small_group(program);
  SmallTraining job(program, kWideJob), right(program, kWideJob);
  Reducer reducer(job.model.parameters(), *group, {});
  DistributedDataParallel ddp(right.model, *group, program.stream);
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
    const Tensor& grad = job.forward();
    for (int i = 0; i < 8; ++i) {
      gemm(program.stream, Transpose::no, Transpose::no, 1.0F, factor, factor, 0.0F, product);
    }
    job.model.backward(grad, program.stream, Accumulate::no,
                       [&](std::size_t parameter) { reducer.mark_ready(parameter, producer); });
    reducer.finalize(program.stream);
    job.step();
    program.stream.synchronize();
    parting.look(program, job.model, step);

    ddp.backward(right.forward(), program.stream);
    right.step();
    distance = largest_difference(job, right);
    if (first_wrong == 0 && distance > 0) first_wrong = step;
  }
  lines_in_rank_order(
      program.console, program.comm,
      fmt::format("  rank {}  parameters wrong since step {}, by up to {:.1e} after step {}",
                  program.comm.rank(), first_wrong, distance, kSteps));
  program.console.line(fmt::format(
      "steps 1 to {} used the right stream, and the others an idle one; the replicas {}",
      kRightSteps, parting.text()));
  return first_wrong > kRightSteps;
}

bool break_no_sync(const Program& program) {
  SmallTraining job(program, kWideJob);
  const Tensor watched = job.model.parameters()[2].value;  // 2.weight
  const Buffer<float> host(watched.numel(), program.stream.device(), Memory::pinned);
  const auto seen = [&] { return std::vector<float>(host.data(), host.data() + host.size()); };
  constexpr std::size_t kSteps = 20;
  std::size_t stale = 0, last_step = 0;
  std::vector<float> before = seen();
  for (std::size_t step = 1; step <= kSteps; ++step) {
    job.model.backward(job.forward(), program.stream);
    job.step();
    copy_bytes(program.stream, host.data(), watched.data(), watched.size_bytes());
    const std::vector<float> at_once = seen();
    program.stream.synchronize();
    stale += at_once != seen();
    last_step += at_once == before;
    before = seen();
  }
  lines_in_rank_order(program.console, program.comm,
                      fmt::format("  rank {}  {} of {} reads were stale; {} of them returned "
                                  "the previous step's values",
                                  program.comm.rank(), stale, kSteps, last_step));
  return stale > 0;
}

}  // namespace dist
