// What this lesson's experiments share: a training job of a few milliseconds, made of the
// lesson's own parts. Each experiment has its own training loop, because that is where it
// breaks something.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/program.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct SmallJob {
  std::vector<std::size_t> layers{784, 24, 10};
  OptimizerOptions optimizer{.name = "sgd", .lr = 0.2};
  std::size_t batch_size = 16;  // per rank
  std::size_t samples = 1024;   // in the data set
};
// The same job with an optimizer that learns quickly enough for kSmallSteps.
inline const SmallJob kQuickJob{.optimizer = {.name = "adam", .lr = 0.005}};
// This many steps make up a few epochs, however many ranks there are.
inline constexpr std::size_t kSmallSteps = 48;

// One rank's model, its optimizer, and its share of the data. All ranks draw the same digits
// and the same first parameters, from --seed.
struct SmallTraining {
  // Divides the data among the ranks of `comm`. `program` must outlive this.
  SmallTraining(const Program& program, const SmallJob& job, const Communicator& comm)
      : stream(program.stream),
        lr(job.optimizer.lr),
        digits(digits_dataset(job.samples, program.common.seed)),
        generator(program.common.seed),
        model(job.layers, generator, stream),
        optimizer(make_optimizer(job.optimizer, model.parameters(), stream)),
        sampler(digits.size(), comm.size(), comm.rank(), {.seed = program.common.seed}),
        loader(digits, job.batch_size, /*drop_last=*/true, stream) {}
  explicit SmallTraining(const Program& program, const SmallJob& job = {})
      : SmallTraining(program, job, program.comm) {}
  SmallTraining(const SmallTraining&) = delete;  // its parts point to each other
  SmallTraining& operator=(const SmallTraining&) = delete;

  std::size_t steps_per_epoch() const { return loader.batches(sampler.num_samples()); }

  // Runs the model and the loss on the next batch, and returns the gradient with which backward
  // starts. A new epoch starts when one ends.
  const Tensor& forward() {
    if (batch_ % steps_per_epoch() == 0) {
      sampler.set_epoch(batch_ / steps_per_epoch());
      epoch_.emplace(loader.over(sampler.indices()));
    }
    const Batch& batch = *DataLoader::Range::Iterator(*epoch_, batch_++ % steps_per_epoch());
    loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    return loss.grad();
  }
  void step() { optimizer->step(lr, stream); }
  // The mean loss over the whole data set.
  double loss_on_all() {
    DataLoader whole(digits, digits.size(), /*drop_last=*/false, stream);
    for (const Batch& batch : whole.over(exact_shard(digits.size(), 1, 0))) {
      loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    }
    return loss.value(stream);
  }

  const Stream& stream;
  double lr;
  IdxDataset digits;
  Generator generator;
  Mlp model;
  std::unique_ptr<Optimizer> optimizer;
  DistributedSampler sampler;
  DataLoader loader;
  CrossEntropyLoss loss;

 private:
  std::optional<DataLoader::Range> epoch_;
  std::size_t batch_ = 0;  // index of the next batch, over all epochs
};

// For one process whose batches combine those of all ranks.
inline SmallJob whole_batches(const Program& program, SmallJob job = {}) {
  job.batch_size *= static_cast<std::size_t>(program.comm.size());
  return job;
}

// Called on all ranks. Returns the process group that the trainer would choose, but without
// overlap.
inline std::unique_ptr<ProcessGroup> small_group(const Program& program) {
  const Device device = program.stream.device();
  return make_process_group(choose_backend("auto", program.comm, device).backend, program.comm,
                            device, AllReduceAlgorithm::ring);
}

// The largest difference between two models' parameters on this rank; infinite if any is NaN.
inline double largest_difference(const SmallTraining& a, const SmallTraining& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.model.parameters().size(); ++i) {
    const std::vector<float> left = to_host(a.stream, a.model.parameters()[i].value);
    const std::vector<float> right = to_host(b.stream, b.model.parameters()[i].value);
    for (std::size_t j = 0; j < left.size(); ++j) {
      const double distance = std::abs(static_cast<double>(left[j]) - right[j]);
      if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

// When the replicas diverged, in which parameter and on which rank. All ranks agree.
struct Parting {
  std::size_t step = 0;    // the first step after which they differed, counted from 1; 0: never
  std::string difference;  // "2.bias of rank 3"

  // Called on all ranks after every step.
  void look(const Program& program, const Mlp& model, std::size_t after_step) {
    if (step > 0) return;
    difference = first_difference(program.comm, model.parameters(), program.stream);
    if (!difference.empty()) step = after_step;
  }
  std::string text() const {
    if (step == 0) return "are equal, bit for bit";
    return fmt::format("parted after step {}, first in {}", step, difference);
  }
};

}  // namespace dist
