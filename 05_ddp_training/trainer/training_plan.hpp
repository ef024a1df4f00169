// What this file adds: what a training run is to do, decided and checked before its first step.
// Builds on: task (flags, model, data, rates), start_file, parallelism.
#pragma once

#include "04_distributed_sampler/batch_plan.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/trainer/parallelism.hpp"
#include "05_ddp_training/trainer/start_file.hpp"
#include "05_ddp_training/trainer/task.hpp"
#include "common/program.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace dist {

class TrainingPlan {
 public:
  // Called on all ranks, after MPI has started. `task` must outlive this.
  explicit TrainingPlan(Task& task);
  TrainingPlan(TrainingPlan&&) = delete;

  // Called on all ranks. Reads the flags, the data and the file to start from, checks them, and
  // compares them over the ranks. Returns the exit status if there is nothing to train, as with
  // --help, --explain or wrong flags. Everything below is valid after this.
  std::optional<int> start(int argc, char** argv);

  const Program& program() const { return program_; }
  const Options& options() const { return options_; }
  const ModelPlan& model() const { return task_.model(); }
  const TrainingData& data() const { return task_.data(); }
  const RunSettings& settings() const { return settings_; }
  Backend backend() const { return parallelism_.backend(); }
  Precision precision() const {
    return options_.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  }
  // Of this process, before the model was made, in bytes.
  std::size_t memory_before() const { return memory_before_; }

  // Called on all ranks. The model is drawn from the seed, or rank 0 reads it from a file. Then
  // draws the synthetic data, because the PyTorch program draws both from one generator.
  std::unique_ptr<Module> make_model();
  std::unique_ptr<ProcessGroup> make_group() const { return parallelism_.make_group(); }
  std::unique_ptr<DataParallel> make_data_parallel(Module& model, ProcessGroup& group) const {
    return parallelism_.make_data_parallel(model, group);
  }

  // How this process's samples are divided into batches and steps.
  BatchPlan batches() const;
  // The number of steps at the end of training, if this run begins at `begin`.
  std::size_t total_steps(const Position& begin) const;
  // The batches of an epoch after these samples: those of `sampler` or, with --deterministic,
  // those of all virtual ranks of this process.
  std::vector<BatchSamples> batches_after(const DistributedSampler& sampler, std::size_t epoch,
                                          std::size_t taken) const;
  double lr_at(std::size_t step) const {
    return task_.lr_at(options_, parallelism_.ranks().count(), step);
  }
  // Whether this run writes a checkpoint when it ends.
  bool saves() const { return !options_.checkpoint.empty() && !options_.evaluate; }
  // Whether every process has all parameters, so that they can be compared.
  bool has_replicas() const { return options_.shard != "parameters"; }
  // Whether the work of a step can be recorded and replayed (StepGraph): NCCL's is queued on a
  // stream; all other backends need the host.
  bool uses_graph() const {
    return options_.graph && backend() == Backend::nccl && !options_.deterministic;
  }

  // Called on all ranks. If the run continues another, rank 0 has read that one's file, and all
  // ranks' optimizers get their parts of its state. Returns the position of the first step.
  Position resume(const DataParallel& ddp, Optimizer& optimizer) const;

  // Prints the run's first lines.
  void introduce(const Module& model, const ProcessGroup& group) const;

 private:
  void check();
  void require_memory_for_model() const;
  // The steps that an epoch has left after `taken` samples of all ranks: the same on each rank.
  std::size_t steps_after(std::size_t taken) const;

  Task& task_;
  Program program_;
  Options options_;
  StartFile start_;
  Parallelism parallelism_;
  RunSettings settings_;
  std::vector<CommandLine::Value> values_;  // what must be equal on all ranks
  std::size_t memory_before_ = 0;
};

}  // namespace dist
