// Belief:  randomness on one rank makes the replicas diverge (gradient-noise), and a little
//          noise after the average is harmless (update-noise).
// Predict: every rank adds noise of its own to every gradient: before the average, as large as
//          the gradients; or after it, too small to notice. When do the replicas diverge?
// You see: with noise before the average, never, although it changes the model. With noise
//          after it, in step 1, and then their distance grows, but the loss does not show it.
// Why:     a replica learns about the other ranks only from the average, which is equal on all
//          ranks, noise included. So dropout and augmentation need no common seed. Nothing
//          averages what happens after it, so all ranks must do the same there: clipping, the
//          learning rate, weight decay, skipping a step.
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

#include <ranges>

namespace dist {

// A different sequence on every rank.
static Generator noise_of_rank(const Program& program) {
  return Generator(program.common.seed + 1 + static_cast<std::uint64_t>(program.comm.rank()));
}

// Adds normal noise with standard deviation `size` to every number of a gradient.
static void add_noise(std::span<float> grad, double size, Generator& generator) {
  std::vector<float> noise(grad.size());
  fill_normal(noise, generator);
  for (std::size_t i = 0; i < grad.size(); ++i) grad[i] += static_cast<float>(size) * noise[i];
}

// Called on all ranks. Returns on rank 0 how far the last rank's parameters are from its own.
static double distance_to_last_rank(const Program& program, const SmallTraining& job) {
  SmallTraining last(program);
  for (std::size_t i = 0; i < job.model.parameters().size(); ++i) {
    const Tensor& value = last.model.parameters()[i].value;
    copy(job.stream, value, job.model.parameters()[i].value);
    broadcast<float>(program.comm, value.span(), program.comm.size() - 1);
  }
  return largest_difference(job, last);
}

bool break_gradient_noise(const Program& program) {
  constexpr double kNoise = 0.01;
  SmallTraining job(program), quiet(program);
  Generator noise = noise_of_rank(program);
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.backward();
    // In the order in which backward finishes them.
    for (const Parameter& parameter : std::views::reverse(job.model.parameters())) {
      add_noise(parameter.grad.span(), kNoise, noise);
    }
    job.average();
    job.step();
    job.compare_replicas();
    quiet.right_step();
  }
  const double moved = largest_difference(job, quiet);
  say(program, "  noise of {} in every local gradient, different on every rank, {} steps",
      kNoise, kSmallSteps);
  say(program, "  the noise moved a parameter by up to {:.4f}; the replicas {}", moved,
      job.replicas);
  return job.replicas == kEqual && moved > kNoise * job.lr && std::isfinite(moved);
}

bool break_update_noise(const Program& program) {
  constexpr double kNoise = 1e-6;
  SmallTraining job(program);
  Generator noise = noise_of_rank(program);
  double early = 0;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.backward();
    job.average();
    for (const Parameter& parameter : job.model.parameters()) {
      add_noise(parameter.grad.span(), kNoise, noise);
    }
    job.step();
    job.compare_replicas();
    if (step == 1) early = distance_to_last_rank(program, job);
  }
  const double late = distance_to_last_rank(program, job);
  say(program, "  noise of {} in the averaged gradients, different on every rank", kNoise);
  say(program, "  the replicas {}", job.replicas);
  say(program,
      "  between rank 0's and the last rank's: up to {:.1e} after step 1, {:.1e} after {}",
      early, late, kSmallSteps);
  return job.replicas.starts_with("parted after step 1,") &&
         (program.comm.rank() != 0 || late > early);
}

}  // namespace dist
