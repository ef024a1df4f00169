// What this file adds: everything that a training program decides before its first step: flags,
// device, data, what carries the gradients, which kind of data parallelism, and where training
// begins. main.cpp calls the same functions whatever was chosen.
#pragma once

#include "04_distributed_sampler/batch.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/trainer/data.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "common/console.hpp"
#include "common/device.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

class Setup {
 public:
  // `comm` must outlive this.
  explicit Setup(const Communicator& comm) : comm_(comm) {}
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  // Called first, on all ranks together. Reads and checks the flags, the data and the file to
  // start from, and compares them over the ranks. Returns the exit status if there is nothing
  // to train, as with --help, --explain or wrong flags.
  std::optional<int> read(int argc, char** argv);

  const Communicator& comm() const { return comm_; }
  const Console& console() const { return *console_; }
  const Stream& stream() const { return *stream_; }
  Device device() const { return device_.device; }
  // A single generator draws the model first and then the data, as PyTorch does.
  Generator& generator() { return *generator_; }
  const Dataset& train() const { return data.train(); }
  Precision precision() const {
    return options.precision == "bf16" ? Precision::bf16 : Precision::fp32;
  }

  // Each is called once, on all ranks, in this order. `model` must outlive the results. The
  // third makes `model` data-parallel in the way that the flags choose.
  std::unique_ptr<Optimizer> make_optimizer(Mlp& model);
  std::unique_ptr<ProcessGroup> make_group();
  std::unique_ptr<DataParallel> make_data_parallel(Mlp& model, ProcessGroup& group);
  // The loss, which writes every step's value to `numbers`. It is divided by the number of
  // ranks if the collectives only add.
  CrossEntropyLoss make_loss(const StepNumbers& numbers) const;

  // How this process's samples are divided into batches and steps, and how many steps an epoch
  // has left after `taken` samples of all ranks: equally many on each rank.
  BatchPlan batches() const;
  std::size_t steps_after(std::size_t taken) const;
  // With --deterministic, the batches of all the ranks that this process plays.
  std::vector<BatchSamples> batches_of_played_ranks(std::size_t epoch, std::size_t taken) const;
  LrSchedule schedule() const;
  // Whether this run writes a checkpoint when it ends.
  bool saves() const { return !options.checkpoint.empty() && !options.evaluate; }
  // Whether every process has all parameters, so that they can be compared.
  bool has_replicas() const { return options.shard != "parameters"; }
  // Whether the work of a step can be recorded and replayed (StepGraph): NCCL's is queued on a
  // stream; all other backends need the host.
  bool uses_graph() const;

  // Called on all ranks. If the run starts from a file, which rank 0 has read, loads it into
  // rank 0's model (DataParallel broadcasts the parameters) and all ranks' optimizer. Returns
  // the position of the first step.
  Position restore(Mlp& model, Optimizer& optimizer) const;
  // What a checkpoint holds. Called on all ranks, get() returns the whole tensor on rank 0.
  std::vector<TensorSource> tensors(const Mlp& model, const Optimizer& optimizer) const;

  void introduce(const Mlp& model) const;  // prints the run's first lines
  std::string promise() const;             // of its last line
  RunDescription description() const;
  // The memory of this rank. `peak` is that of this process so far.
  TrainingMemory memory(const Mlp& model, const Optimizer& optimizer) const;

  Options options;
  TrainingData data;
  RunSettings settings;
  ProcessGroup* group = nullptr;  // what make_group returned last, which its caller owns

 private:
  struct Chosen;

  void read_start();

  const Communicator& comm_;
  DeviceChoice device_;
  std::optional<Checkpoint> file_;  // on the rank that read it, and so are the next two
  Position position_;
  std::vector<std::string> notes_;  // one sentence per element
  std::optional<Console> console_;
  std::optional<Stream> stream_;
  std::optional<Generator> generator_;
  std::size_t memory_before_ = 0;   // in use before the model was made, in bytes
  std::shared_ptr<Chosen> chosen_;  // not shared, but can be destroyed where it is incomplete
};

}  // namespace dist
