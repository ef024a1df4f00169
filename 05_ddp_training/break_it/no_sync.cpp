// Belief:  a copy is done when the call returns. (This is not about DDP's no_sync().)
// Predict: after every step the last layer's weights are copied to the host, into pinned
//          memory, and read on the next line. Which step do they belong to?
// You see: to an earlier step, usually the previous one, as the count shows. With emulated CUDA
//          this happens every time; on a GPU, it happens whenever the step takes longer than
//          queueing it.
// Why:     the call queues the copy behind the step and returns. Only stream.synchronize() or
//          an event shows that the copy is done. Until then the host finds the buffer's old
//          content: plausible numbers from an earlier step.
// In the wild: to("cpu", non_blocking=True), pytorch/pytorch#86264 and #127612.
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "common/buffer.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dist {

bool break_no_sync(const Program& program) {
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits, {.layers = {784, 256, 10}, .batch_size = 64});
  const Tensor watched = job.model().parameters()[2].value;  // 2.weight
  const Buffer<float> host(watched.numel(), program.stream.device(), Memory::pinned);
  const auto seen = [&] { return std::vector<float>(host.data(), host.data() + host.size()); };
  constexpr std::size_t kSteps = 20;
  std::size_t stale = 0;
  std::size_t last_step = 0;
  std::vector<float> before = seen();
  for (std::size_t step = 1; step <= kSteps; ++step) {
    job.forward();
    job.model().backward(job.grad(), program.stream);
    job.optimizer().step(job.lr(), program.stream);
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
  rows_in_rank_order(program.console, program.comm,
                     {{"break", "no-sync"},
                      {"rank", program.comm.rank()},
                      {"reads", kSteps},
                      {"stale", stale},
                      {"step_before", last_step}});
  return stale > 0;
}

}  // namespace dist
