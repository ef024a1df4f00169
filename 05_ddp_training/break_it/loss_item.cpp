// Belief:  reading one number after each step costs one small copy.
// Predict: two runs queue the same 64 steps on a GPU. One reads its loss after every step, as
//          loss.item() does, the other after every eighth. How often does the host wait in
//          each, and which is faster?
// You see: 64 waits for a loss, or 8, and the same losses. (Both runs also wait for their
//          batches now and then.) On a GPU, compare the times. Emulated CUDA counts the waits,
//          but its times mean nothing.
// Why:     the copy is small, but to have the number, the host must wait until the GPU has done
//          all the work queued before it. Meanwhile it queues nothing, so after the copy the
//          GPU waits for the host. If the host stays ahead, the GPU never waits.
// In the wild: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html, "avoid
//          unnecessary CPU-GPU synchronization".
#include "05_ddp_training/break_it/small_training.hpp"

#include <chrono>
#include <cstdint>
#include <utility>

namespace dist {
namespace {

constexpr std::size_t kSteps = 64;
constexpr std::size_t kSeldom = 8;

struct Run {
  std::uint64_t waits = 0;  // of the host
  double step_ms = 0;
  double loss = 0;
};

// Reads the loss after every `every` steps.
Run train_and_read(const Program& program, std::size_t every) {
  SmallTraining job(program, {.batch_size = 64});
  const auto group = small_group(program);
  DistributedDataParallel ddp(job.model, *group, program.stream);
  Run run;
  const auto steps = [&](std::size_t count) {
    for (std::size_t step = 1; step <= count; ++step) {
      ddp.backward(job.forward(), program.stream);
      job.step();
      if (step % every == 0) run.loss = job.loss.value(program.stream);
    }
  };
  steps(kSeldom);  // allocates memory and connects the ranks
  const std::uint64_t before = gpu_waits;
  const auto begin = std::chrono::steady_clock::now();
  steps(kSteps);
  const std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - begin;
  run.waits = gpu_waits - before;
  run.step_ms = time.count() / kSteps;
  return run;
}

}  // namespace

bool break_loss_item(const Program& program) {
  const Run often = train_and_read(program, 1);
  const Run seldom = train_and_read(program, kSeldom);
  for (const auto& [every, run] : {std::pair(std::size_t{1}, often), {kSeldom, seldom}}) {
    lines_in_rank_order(
        program.console, program.comm,
        fmt::format("  rank {}  loss read in {:2} of {} steps: {:3} waits, {:.3f} ms per step",
                    program.comm.rank(), kSteps / every, kSteps, run.waits, run.step_ms));
  }
  program.console.line(
      fmt::format("the last loss of rank 0 is {:.6f} and {:.6f}", often.loss, seldom.loss));
  return often.loss == seldom.loss && often.waits == seldom.waits + kSteps - kSteps / kSeldom;
}

}  // namespace dist
