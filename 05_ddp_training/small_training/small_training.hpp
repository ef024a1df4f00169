// Data-parallel training of a small model, in single stages, for the experiments (break_it/)
// and for programs that compare another way with it. Each experiment has its own loop, because
// that is where it breaks something.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
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
  OptimizerOptions optimizer{.kind = OptimizerKind::sgd, .lr = 0.2};
  std::size_t batch_size = 16;  // per rank
  std::size_t samples = 1024;   // in the data set
  Device device{};              // the CPU, unless the experiment is about GPUs
};
// The same job with an optimizer that learns quickly enough for kSmallSteps.
inline const SmallJob kQuickJob{.optimizer = {.kind = OptimizerKind::adam, .lr = 0.005}};
// This many steps make up a few epochs, however many ranks there are.
inline constexpr std::size_t kSmallSteps = 48;
inline constexpr const char* kEqual = "are equal, bit for bit";

// One batch after another of a rank's share of the data, epoch after epoch.
struct SmallBatches {
  DistributedSampler sampler;
  DataLoader loader;
  std::optional<DataLoader::Range> epoch = {};
  std::size_t taken = 0;  // over all epochs

  const Batch& next() {
    if (per_epoch() == 0) throw Error("too many ranks: a rank's samples fill no batch");
    if (taken % per_epoch() == 0) {
      sampler.set_epoch(taken / per_epoch());
      epoch.emplace(loader.over(sampler.indices()));
    }
    const BatchSamples& samples = epoch->batches[taken++ % per_epoch()];
    return *DataLoader::Range::Iterator{loader, &samples};
  }
  std::size_t per_epoch() const { return loader.batches(sampler.num_samples()); }
};

// One rank's model, its optimizer, and its share of the data. All ranks draw the same digits
// and the same first parameters, from --seed.
struct SmallTraining {
  // Divides the data among the ranks of `comm`, which must outlive this.
  SmallTraining(const SmallJob& job, const Communicator& comm, IdxDataset data,
                std::uint64_t seed, const SamplerOptions& order)
      : stream(job.device),
        lr(job.optimizer.lr),
        digits(std::move(data)),
        generator(seed),
        model(job.layers, generator, stream),
        optimizer(job.optimizer, model.parameters(), stream),
        batches{{digits.size(), comm.size(), comm.rank(), order},
                {digits, job.batch_size, /*drop_last=*/true, stream}} {
    if (comm.size() == 1) return;
    const BackendChoice carrier = choose_backend("auto", comm, job.device);
    group = make_process_group(carrier.backend, comm, job.device, AllReduceAlgorithm::ring,
                               /*overlap=*/false, /*pretend_link=*/0, carrier.nccl);
    reducer.emplace(model.parameters(), plan_buckets(model.parameters(), {}), *group);
  }
  SmallTraining(const Program& program, const SmallJob& job, const Communicator& comm)
      : SmallTraining(job, comm, digits_dataset(job.samples, program.common.seed),
                      program.common.seed, {.seed = program.common.seed}) {}
  explicit SmallTraining(const Program& program, const SmallJob& job = {})
      : SmallTraining(program, job, program.comm) {}

  // Runs the model and the loss on the next batch. Returns the gradient that backward takes.
  const Tensor& forward() {
    const Batch& batch = batches.next();
    loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    return loss.grad();
  }
  // This rank's own gradients of the next batch.
  void backward() { model.backward(forward(), stream); }
  // Replaces the reducer's gradients by their means over the ranks, after the work queued on
  // `producer`. DDP does the same, but bucket by bucket, during backward.
  void average(const Stream& producer) {
    if (!reducer) return;  // a single rank
    for (const BucketPlan& bucket : reducer->plans()) {
      for (const std::size_t i : bucket.parameters) reducer->mark_ready(i, producer);
    }
    reducer->finalize(stream);
  }
  void average() { average(stream); }
  void step() { optimizer.step(lr, stream); }
  // Called on all ranks after every step. Keeps in `replicas` whether and when they parted, or
  // were no longer finite.
  void compare_replicas() {
    if (replicas != kEqual) return;
    const auto difference = first_difference(group->comm(), model.parameters(), stream);
    if (!difference.empty()) {
      replicas = fmt::format("parted after step {}, first in {}", batches.taken, difference);
    } else if (!all_finite(model.parameters(), stream)) {
      replicas = fmt::format("diverged in step {}", batches.taken);
    }
  }
  // A whole step, with nothing broken.
  void right_step() {
    backward();
    average();
    step();
  }

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
  Optimizer optimizer;
  SmallBatches batches;
  CrossEntropyLoss loss;
  std::unique_ptr<ProcessGroup> group;  // this and its reducer: only for several ranks
  std::optional<Reducer> reducer;
  std::string replicas = kEqual;  // or "parted after step 1, first in 2.bias of rank 3"
};

// One process alone, whose batches combine those of all ranks.
inline SmallTraining one_process(const Program& program, SmallJob job = {}) {
  job.batch_size *= static_cast<std::size_t>(program.comm.size());
  return SmallTraining(program, job, Communicator::alone());
}

// The larger error; infinite if one is NaN.
inline double worse(double worst, double error) {
  return std::isfinite(error) ? std::max(worst, error) : HUGE_VAL;
}

// The largest difference between two models' parameters on this rank; infinite if any is NaN.
inline double largest_difference(const SmallTraining& a, const SmallTraining& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.model.parameters().size(); ++i) {
    const std::vector<float> left = to_host(a.stream, a.model.parameters()[i].value);
    const std::vector<float> right = to_host(b.stream, b.model.parameters()[i].value);
    for (std::size_t j = 0; j < left.size(); ++j) {
      largest = worse(largest, std::abs(static_cast<double>(left[j]) - right[j]));
    }
  }
  return largest;
}

// Prints a line, on rank 0.
template <class... Values>
void say(const Program& program, fmt::format_string<Values...> text, Values&&... values) {
  program.console.line(text, std::forward<Values>(values)...);
}

}  // namespace dist
