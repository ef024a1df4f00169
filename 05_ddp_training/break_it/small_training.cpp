#include "05_ddp_training/break_it/small_training.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dist {

IdxDataset small_digits(const Program& program, std::size_t samples) {
  return digits_dataset(samples, program.common.seed);
}

SmallTraining::SmallTraining(const Program& program, const IdxDataset& digits,
                             const SmallJob& job, int ranks, int rank)
    : program_(program),
      digits_(digits),
      job_(job),
      generator_(program.common.seed),
      model_(job.layers, generator_, program.stream),
      optimizer_(make_optimizer(job.optimizer, model_.parameters(), program.stream)),
      sampler_(digits.size(), ranks, rank, {.seed = program.common.seed}),
      loader_(digits, job.batch_size, /*drop_last=*/true, program.stream) {}

SmallTraining::SmallTraining(const Program& program, const IdxDataset& digits,
                             const SmallJob& job)
    : SmallTraining(program, digits, job, program.comm.size(), program.comm.rank()) {}

SmallTraining SmallTraining::among(const Communicator& group, const Program& program,
                                   const IdxDataset& digits, const SmallJob& job) {
  return {program, digits, job, group.size(), group.rank()};
}

SmallTraining SmallTraining::alone(const Program& program, const IdxDataset& digits,
                                   const SmallJob& job) {
  return {program, digits, job, 1, 0};
}

SmallTraining SmallTraining::twin(const Program& program, const IdxDataset& digits,
                                  SmallJob job) {
  job.batch_size *= static_cast<std::size_t>(program.comm.size());
  return alone(program, digits, job);
}

void SmallTraining::forward() {
  if (!batches_ || batch_ == steps_per_epoch()) {
    sampler_.set_epoch(epoch_++);
    batches_.emplace(loader_.over(sampler_.indices()));
    batch_ = 0;
  }
  const Batch& batch = *DataLoader::Range::Iterator(*batches_, batch_++);
  loss_.forward(model_.forward(batch.inputs, program_.stream), batch.targets, program_.stream);
}

double SmallTraining::loss_on_all() {
  DataLoader whole(digits_, digits_.size(), /*drop_last=*/false, program_.stream);
  const std::vector<std::size_t> everything = exact_shard(digits_.size(), 1, 0);
  CrossEntropyLoss loss;
  for (const Batch& batch : whole.over(everything)) {
    loss.forward(model_.forward(batch.inputs, program_.stream), batch.targets, program_.stream);
  }
  return loss.value(program_.stream);
}

std::unique_ptr<ProcessGroup> small_group(const Program& program) {
  const Device device = program.stream.device();
  return make_process_group(choose_backend("auto", program.comm, device).backend, program.comm,
                            device, AllReduceAlgorithm::ring);
}

double largest_difference(const Mlp& a, const Mlp& b, const Stream& stream) {
  double largest = 0;
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    const std::vector<float> left = to_host(stream, a.parameters()[i].value);
    const std::vector<float> right = to_host(stream, b.parameters()[i].value);
    for (std::size_t j = 0; j < left.size(); ++j) {
      const double distance = std::abs(static_cast<double>(left[j]) - right[j]);
      if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

void add_noise(const Tensor& tensor, double size, Generator& generator, const Stream& stream) {
  std::vector<float> noise(tensor.numel());
  fill_normal(noise, generator);
  on_host(stream, tensor, [&](std::span<float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(size) * noise[i];
    }
  });
}

void Parting::look(const Program& program, const Mlp& model, std::size_t after_step) {
  if (step > 0) return;
  difference = first_difference(program.comm, model.parameters(), program.stream);
  if (!difference.empty()) step = after_step;
}

std::string Parting::text() const {
  if (step == 0) return "are equal, bit for bit";
  return fmt::format("parted after step {}, first in {}", step, difference);
}

}  // namespace dist
