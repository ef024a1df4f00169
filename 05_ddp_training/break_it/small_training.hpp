// What this lesson's experiments share: data-parallel training of a small model, in single
// stages. Each experiment has its own loop, because that is where it breaks something.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  Device device{};              // the CPU, unless the experiment is about GPUs
};
// The same job with an optimizer that learns quickly enough for kSmallSteps.
inline const SmallJob kQuickJob{.optimizer = {.name = "adam", .lr = 0.005}};
// This many steps make up a few epochs, however many ranks there are.
inline constexpr std::size_t kSmallSteps = 48;
inline constexpr const char* kEqual = "are equal, bit for bit";

// One rank's model, its optimizer, and its share of the data. All ranks draw the same digits
// and the same first parameters, from --seed.
struct SmallTraining {
  // Divides the data among the ranks of `comm`, which must outlive this.
  SmallTraining(const Program& program, const SmallJob& job, const Communicator& comm)
      : stream(job.device),
        lr(job.optimizer.lr),
        digits(digits_dataset(job.samples, program.common.seed)),
        generator(program.common.seed),
        model(job.layers, generator, stream),
        optimizer(make_optimizer(job.optimizer, model.parameters(), stream)),
        sampler(digits.size(), comm.size(), comm.rank(), {.seed = program.common.seed}),
        loader(digits, job.batch_size, /*drop_last=*/true, stream) {
    if (comm.size() == 1) return;
    group = make_process_group(choose_backend("auto", comm, job.device).backend, comm,
                               job.device, AllReduceAlgorithm::ring);
    reducer.emplace(model.parameters(), plan_buckets(model.parameters(), {}), *group);
  }
  explicit SmallTraining(const Program& program, const SmallJob& job = {})
      : SmallTraining(program, job, program.comm) {}

  const Batch& next_batch() {
    if (batch_ % steps_per_epoch() == 0) {
      sampler.set_epoch(batch_ / steps_per_epoch());
      epoch_.emplace(loader.over(sampler.indices()));
    }
    const BatchSamples& samples = epoch_->batches[batch_++ % steps_per_epoch()];
    return *DataLoader::Range::Iterator{loader, &samples};
  }
  // Runs the model and the loss on the next batch. Returns the gradient that backward takes.
  const Tensor& forward() {
    const Batch& batch = next_batch();
    loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    return loss.grad();
  }
  // This rank's own gradients of the next batch.
  void backward() { model.backward(forward(), stream); }
  // Replaces every gradient by its mean over the ranks, after the work queued on `producer`.
  // DDP does the same, but bucket by bucket, during backward.
  void average(const Stream& producer) {
    if (!reducer) return;  // a single rank
    for (std::size_t i = model.parameters().size(); i-- > 0;) reducer->mark_ready(i, producer);
    reducer->finalize(stream);
  }
  void average() { average(stream); }
  void step() { optimizer->step(lr, stream); }
  // Called on all ranks after every step. Keeps in `replicas` whether and when they diverged.
  void compare_replicas() {
    if (replicas != kEqual) return;
    const auto difference = first_difference(group->comm(), model.parameters(), stream);
    if (difference.empty()) return;
    replicas = fmt::format("parted after step {}, first in {}", batch_, difference);
  }
  // A whole step, with nothing broken.
  void right_step() {
    backward();
    average();
    step();
  }

  std::size_t steps_per_epoch() const { return loader.batches(sampler.num_samples()); }
  // The mean loss over the whole data set.
  double loss_on_all() {
    DataLoader whole(digits, digits.size(), /*drop_last=*/false, stream);
    for (const Batch& batch : whole.over(exact_shard(digits.size(), 1, 0))) {
      loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    }
    return loss.value(stream);
  }

  const Stream stream;
  double lr;
  IdxDataset digits;
  Generator generator;
  Mlp model;
  std::unique_ptr<Optimizer> optimizer;
  DistributedSampler sampler;
  DataLoader loader;
  CrossEntropyLoss loss;
  std::unique_ptr<ProcessGroup> group;  // this and its reducer: only for several ranks
  std::optional<Reducer> reducer;
  std::string replicas = kEqual;  // or "parted after step 1, first in 2.bias of rank 3"

 private:
  std::optional<DataLoader::Range> epoch_;
  std::size_t batch_ = 0;  // index of the next batch, over all epochs
};

// One process alone, whose batches combine those of all ranks.
inline SmallTraining one_process(const Program& program, SmallJob job = {}) {
  job.batch_size *= static_cast<std::size_t>(program.comm.size());
  return SmallTraining(program, job, Communicator::alone());
}

// The largest difference between two models' parameters on this rank; infinite if any is NaN.
inline double largest_difference(const SmallTraining& a, const SmallTraining& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.model.parameters().size(); ++i) {
    const std::vector<float> left = to_host(a.stream, a.model.parameters()[i].value);
    const std::vector<float> right = to_host(b.stream, b.model.parameters()[i].value);
    for (std::size_t j = 0; j < left.size(); ++j) {
      const double distance = std::abs(static_cast<double>(left[j]) - right[j]);
      largest = std::isfinite(distance) ? std::max(largest, distance) : HUGE_VAL;
    }
  }
  return largest;
}

// Prints a line, on rank 0.
template <class... Values>
void say(const Program& program, fmt::format_string<Values...> text, Values&&... values) {
  program.console.line(fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace dist
