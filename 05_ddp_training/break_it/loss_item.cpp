// Belief:  reading one number after each step costs one small copy.
// Predict: two runs queue the same 64 steps on a GPU. One reads its loss after every step, as
//          loss.item() does, the other after every eighth. How often does the host wait?
// You see: 64 waits for a loss, or 8. (Both runs also wait for their batches now and then.) On
//          a GPU, compare the times; those of emulated CUDA mean nothing.
// Why:     the copy is small, but before it the host must wait until the GPU has done all the
//          work queued so far. Meanwhile it queues nothing, so then the GPU waits for the host.
#include "05_ddp_training/small_training/small_training.hpp"

#include <chrono>
#include <utility>

namespace dist {

bool break_loss_item(const Program& program) {
  constexpr std::size_t kSteps = 64;
  constexpr std::size_t kSeldom = 8;
  // Returns the host's waits and the last loss.
  const auto read_after_every = [&](std::size_t every) {
    SmallTraining job(program, {.batch_size = 64, .device = program.device.device});
    double loss = 0;
    const auto steps = [&](std::size_t count) {
      for (std::size_t step = 1; step <= count; ++step) {
        job.right_step();
        if (step % every == 0) loss = job.loss.value(job.stream);
      }
    };
    steps(kSeldom);  // allocates memory and connects the ranks
    const std::uint64_t before = gpu_waits;
    const auto begin = std::chrono::steady_clock::now();
    steps(kSteps);
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begin;
    const std::uint64_t waits = gpu_waits - before;
    lines_in_rank_order(
        program.console, program.comm,
        "  rank {}  loss read in {:2} of {} steps: {:3} waits, {:.3f} ms per step",
        program.comm.rank(), kSteps / every, kSteps, waits, time.count() / kSteps);
    return std::pair(waits, loss);
  };
  const auto [waits, loss] = read_after_every(1);
  const auto [seldom_waits, seldom_loss] = read_after_every(kSeldom);
  say(program, "the last loss of rank 0 is {:.6f} and {:.6f}", loss, seldom_loss);
  return loss == seldom_loss && waits == seldom_waits + kSteps - kSteps / kSeldom;
}

}  // namespace dist
