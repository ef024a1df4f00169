// What this file adds: everything that a training program decides before its first step: flags,
// device, data, and where training begins. parallel_setup.hpp adds what ddp_training needs and
// the trainer made of the reader's exercises (tools/mine) does not.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/sharding/shard.hpp"
#include "05_ddp_training/trainer/options/starting_point.hpp"
#include "05_ddp_training/trainer/options/training_options.hpp"
#include "05_ddp_training/trainer/report/summary.hpp"
#include "05_ddp_training/trainer/training_data.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

class Setup {
 public:
  // `comm` must outlive this.
  Setup(std::string program, const Communicator& comm);
  virtual ~Setup() = default;
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  // Called first, on all ranks together. Reads and checks the flags and the data. Returns the
  // exit status if there is nothing to train, as with --help or wrong flags.
  virtual std::optional<int> read(int argc, char** argv);

  const Communicator& comm() const { return comm_; }
  const Console& console() const { return *console_; }
  const Stream& stream() const { return *stream_; }
  // A single generator draws the model first and then the data, as PyTorch does.
  Generator& generator() { return *generator_; }
  const Dataset& train() const { return data.train(); }
  Precision precision() const {
    return options.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  }

  // Called once, on all ranks. `model` must outlive the optimizer.
  virtual std::unique_ptr<Optimizer> make_optimizer(Mlp& model);

  virtual VirtualRanks ranks() const = 0;
  // ddp_training overrides these functions.
  virtual std::size_t accumulate() const { return 1; }
  // How gradients are divided into buckets, and each bucket into chunks.
  virtual BucketCaps bucket_caps() const { return {}; }
  virtual int chunks() const { return 1; }
  virtual LrSchedule schedule() const;
  virtual std::size_t check_replicas() const { return 0; }  // steps; 0: never
  // Whether the work of a step can be recorded and replayed (StepGraph).
  virtual bool uses_graph() const { return options.graph; }
  // Whether every process has all parameters, so that they can be compared.
  virtual bool has_replicas() const { return true; }
  // Which part of every tensor this rank holds; null if it holds all of them whole.
  virtual const Shard* shard() const { return nullptr; }
  virtual RunDescription description() const;
  // The lines that introduce the run, and what its last line promises.
  virtual std::vector<std::string> opening(const Mlp& model) const = 0;
  virtual std::string promise() const = 0;

  // How this process's samples are divided into batches and steps.
  BatchPlan batches() const;

  TrainingOptions options;
  TrainingData data;
  StartingPoint start;
  RunSettings settings;
  DeviceChoice device;
  ProcessGroup* group = nullptr;  // carries the gradients; null for a single process
  std::size_t memory_before = 0;  // memory in use before the model was made, in bytes

 protected:
  virtual std::string title() const = 0;
  // True if the number of processes has no effect on the results (--deterministic).
  virtual bool fixed_ranks() const { return false; }
  // What all ranks must agree on: the flags, and the content of the data.
  const std::vector<CommandLine::Value>& values() const { return values_; }
  // Declares further flags among the others, and adds checks that they are consistent.
  virtual void declare(CommandLine&) {}
  // Called on all ranks after each has passed its own checks. Any Error is thrown on all ranks.
  virtual void check_together() = 0;

 private:
  std::string program_;
  std::vector<CommandLine::Value> values_;
  const Communicator& comm_;
  std::optional<Console> console_;
  std::optional<Stream> stream_;
  std::optional<Generator> generator_;
};

}  // namespace dist
