// Belief:  queued work is finished work: the previous line has already computed the gradient
//          (wrong-stream), and a copy is done when the call returns (no-sync, which is not
//          about DDP's no_sync()).
// Predict: the all-reduce waits not for the stream on which backward queues its work, but for
//          an idle one. What does it average? And if weights are copied to pinned host memory
//          after every step and read on the next line, to which step do they belong?
// You see: it averages the last step's gradients, so all replicas are wrong but usually equal.
//          Sometimes backward overwrites that average, and they diverge. The weights on the
//          host are usually the previous step's. With emulated CUDA this happens every time; on
//          a GPU, if a step takes longer than queueing it (a few large products see to that).
// Why:     both calls only queue, and return. An idle stream's event is already complete. Only
//          stream.synchronize() or an event shows the host that a copy is done.
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/buffer.hpp"
#include "common/build_config.hpp"

namespace dist {

static SmallJob wide_job(const Program& program) {
  return {.layers = {784, 256, 10}, .batch_size = 64, .device = program.device.device};
}

bool break_wrong_stream(const Program& program) {
  SmallTraining job(program, wide_job(program)), right(program, wide_job(program));
  const Stream elsewhere(job.stream.device());
  // On a GPU: 17 thousand million operations each, a few tenths of a millisecond.
  constexpr std::size_t kWide = DIST_CUDA_EMULATED ? 8 : 2048;
  const Tensor operand({kWide, kWide}, job.stream.device());
  const Tensor product(operand.shape(), job.stream.device());
  constexpr std::size_t kRightSteps = 2;  // after these, the buckets hold gradients
  constexpr std::size_t kSteps = 12;
  std::size_t first_wrong = 0;
  double distance = 0;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    const Tensor& grad = job.forward();
    for (int i = 0; i < 8; ++i) {
      gemm(job.stream, Transpose::no, Transpose::no, operand, operand, 0.0F, product);
    }
    job.model.backward(grad, job.stream);
    job.average(step <= kRightSteps ? job.stream : elsewhere);
    job.step();
    job.compare_replicas();
    right.right_step();
    distance = largest_difference(job, right);
    if (first_wrong == 0 && distance > 0) first_wrong = step;
  }
  lines_in_rank_order(
      program.console, program.comm,
      "  rank {}  parameters wrong since step {}, by up to {:.1e} after step {}",
      program.comm.rank(), first_wrong, distance, kSteps);
  say(program,
      "steps 1 to {} used the right stream, and the others an idle one; the replicas {}",
      kRightSteps, job.replicas);
  return first_wrong > kRightSteps;
}

bool break_no_sync(const Program& program) {
  SmallTraining job(program, wide_job(program));
  const Tensor watched = job.model.parameters()[2].value;  // 2.weight
  const Buffer<float> host(watched.numel(), job.stream.device(), Memory::pinned);
  const auto seen = [&] { return std::vector<float>(host.data(), host.data() + host.size()); };
  constexpr std::size_t kSteps = 20;
  std::size_t stale = 0, last_step = 0;
  std::vector<float> before = seen();
  for (std::size_t step = 1; step <= kSteps; ++step) {
    job.backward();
    job.step();
    copy_bytes(job.stream, host.data(), watched.data(), watched.size_bytes());
    const std::vector<float> at_once = seen();
    job.stream.synchronize();
    stale += at_once != seen();
    last_step += at_once == before;
    before = seen();
  }
  lines_in_rank_order(
      program.console, program.comm,
      "  rank {}  {} of {} reads were stale; {} returned the previous step's values",
      program.comm.rank(), stale, kSteps, last_step);
  return stale > 0;
}

}  // namespace dist
