// Belief:  randomness on one rank makes the replicas diverge.
// Predict: before averaging, every rank adds its own noise, as large as the gradients
//          themselves, to every gradient. When do the replicas diverge?
// You see: never. The hashes are equal after every step, although the model differs from the
//          one trained without noise. All ranks get the same average, including the noise.
// Why:     a replica learns about the other ranks only from the average, which is equal on all
//          ranks. Therefore dropout, augmentation and kernels that add in any order need no
//          common seed.
// In the wild: different dropout masks on each rank are desirable, and equal ones cost quality:
//          huggingface/transformers#31412. Compare update-noise.
#include "05_ddp_training/break_it/experiments.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dist {

bool break_gradient_noise(const Program& program) {
  constexpr double kNoise = 0.01;
  const auto group = small_group(program);
  const IdxDataset digits = small_digits(program);
  SmallTraining job(program, digits);
  SmallTraining quiet(program, digits);
  Reducer reducer(job.model().parameters(), *group, {});
  DistributedDataParallel quiet_ddp(quiet.model(), *group, program.stream);
  Generator noise(program.common.seed + 1 + static_cast<std::uint64_t>(program.comm.rank()));
  // The hook of DDP's backward, but with noise before the gradient's bucket is sent.
  const auto ready = [&](std::size_t parameter) {
    add_noise(job.model().parameters()[parameter].grad, kNoise, noise, program.stream);
    reducer.mark_ready(parameter, program.stream);
  };
  Parting parting;
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    job.forward();
    job.model().backward(job.grad(), program.stream, Accumulate::no, ready);
    reducer.finalize(program.stream);
    job.optimizer().step(job.lr(), program.stream);
    parting.look(program, job.model(), step);

    quiet.forward();
    quiet_ddp.backward(quiet.grad(), program.stream);
    quiet.optimizer().step(quiet.lr(), program.stream);
  }
  const double moved = largest_difference(job.model(), quiet.model(), program.stream);
  program.console.line(
      fmt::format("  noise of {} in every local gradient, different on every rank, {} steps",
                  kNoise, kSmallSteps));
  program.console.line(fmt::format(
      "  the noise moved a parameter by up to {:.4f}; the replicas {}", moved, parting.text()));
  program.console.row({{"break", "gradient-noise"},
                       {"steps", kSmallSteps},
                       {"moved", significant(moved)},
                       {"parted_after", parting.step}});
  return parting.step == 0 && moved > kNoise * job.lr();
}

}  // namespace dist
