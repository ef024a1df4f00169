// Belief:  randomness on one rank makes the replicas diverge (gradient-noise), and a little
//          noise after the average is harmless (update-noise).
// Predict: every rank adds noise of its own to every gradient: before averaging, as large as
//          the gradients themselves; or after averaging, too small to notice. When do the
//          replicas diverge in each case?
// You see: with noise before the average, never, although the model differs from the one
//          trained without noise. With noise after the average, in step 1; the distance
//          between the replicas grows with every step, but the loss does not show it.
// Why:     a replica learns about the other ranks only from the average, which is equal on all
//          ranks, including the noise. Therefore dropout, augmentation and kernels that add in
//          any order need no common seed. Changes made after the average are never averaged
//          again, so all ranks must do the same there: clipping, the learning rate, weight
//          decay, skipping a step.
#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/break_it/small_training.hpp"

namespace dist {
namespace {

// Adds normal noise with standard deviation `size` to every number.
void add_noise(const Tensor& tensor, double size, Generator& generator, const Stream& stream) {
  std::vector<float> noise(tensor.numel());
  fill_normal(noise, generator);
  on_host(stream, tensor, [&](std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(size) * noise[i];
    }
  });
}

// A different sequence on every rank.
Generator noise_of_rank(const Program& program) {
  return Generator(program.common.seed + 1 + static_cast<std::uint64_t>(program.comm.rank()));
}

// Called on all ranks. Returns on rank 0 how far the last rank's parameters are from its own.
double distance_to_last_rank(const Program& program, const Mlp& model) {
  double largest = 0;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<float> mine = to_host(program.stream, parameter.value);
    std::vector<float> last = mine;
    broadcast<float>(program.comm, last, program.comm.size() - 1);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(mine[i] - last[i])));
    }
  }
  return largest;
}

}  // namespace

bool break_gradient_noise(const Program& program) {
  constexpr double kNoise = 0.01;
  const auto group = small_group(program);
  SmallTraining job(program), quiet(program);
  Reducer reducer(job.model.parameters(), *group, {});
  DistributedDataParallel quiet_ddp(quiet.model, *group, program.stream);
  Generator noise = noise_of_rank(program);
  // The hook of DDP's backward, but with noise before the gradient's bucket is sent.
  const auto ready = [&](std::size_t parameter) {
    add_noise(job.model.parameters()[parameter].grad, kNoise, noise, program.stream);
    reducer.mark_ready(parameter, program.stream);
  };
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.model.backward(job.forward(), program.stream, Accumulate::no, ready);
    reducer.finalize(program.stream);
    job.step();
    parting.look(program, job.model, step);

    quiet_ddp.backward(quiet.forward(), program.stream);
    quiet.step();
  }
  const double moved = largest_difference(job, quiet);
  program.console.line(
      fmt::format("  noise of {} in every local gradient, different on every rank, {} steps",
                  kNoise, kSmallSteps));
  program.console.line(fmt::format(
      "  the noise moved a parameter by up to {:.4f}; the replicas {}", moved, parting.text()));
  return parting.step == 0 && moved > kNoise * job.lr;
}

bool break_update_noise(const Program& program) {
  constexpr double kNoise = 1e-6;
  const auto group = small_group(program);
  SmallTraining job(program);
  DistributedDataParallel ddp(job.model, *group, program.stream);
  Generator noise = noise_of_rank(program);
  Parting parting;
  double early = 0;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    ddp.backward(job.forward(), program.stream);
    for (const Parameter& parameter : job.model.parameters()) {
      add_noise(parameter.grad, kNoise, noise, program.stream);
    }
    job.step();
    parting.look(program, job.model, step);
    if (step == 1) early = distance_to_last_rank(program, job.model);
  }
  const double late = distance_to_last_rank(program, job.model);
  program.console.line(
      fmt::format("  noise of {} in the averaged gradients, different on every rank", kNoise));
  program.console.line("  the replicas " + parting.text());
  program.console.line(
      fmt::format("  distance from rank 0's parameters to the last rank's: up to "
                  "{:.1e} after step 1, {:.1e} after step {}",
                  early, late, kSmallSteps));
  return parting.step == 1 && program.comm.all_agree(program.comm.rank() != 0 || late > early);
}

}  // namespace dist
