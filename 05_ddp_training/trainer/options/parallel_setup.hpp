// What this file adds: what several processes need beyond a Setup, namely a check that they are
// in the same run, a backend for messages, and a way to average gradients.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/process_group/overlap_choice.hpp"
#include "05_ddp_training/trainer/options/parallel_options.hpp"
#include "05_ddp_training/trainer/options/setup.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dist {

class ShardedOptimizer;

class ParallelSetup : public Setup {
 public:
  using Setup::Setup;

  // Also answers --explain.
  std::optional<int> read(int argc, char** argv) override;

  std::unique_ptr<Optimizer> make_optimizer(Mlp& model) override;
  // Called on all ranks. Returns the process group that the flags choose: ours, MPI or NCCL.
  std::unique_ptr<ProcessGroup> make_group();
  // Called on all ranks. Makes `model` data-parallel in the way that the flags choose: with
  // buckets, parameter by parameter, in an order that gives equal bits on 1, 2, 4 and 8
  // processes, or with a part of the work and memory on each rank.
  std::unique_ptr<DataParallel> make_data_parallel(Mlp& model, ProcessGroup& carrier);

  VirtualRanks ranks() const override { return parallel_.ranks(comm()); }
  std::size_t accumulate() const override { return parallel_.accumulate; }
  BucketCaps bucket_caps() const override { return parallel_.bucket_caps(backend_.backend); }
  int chunks() const override { return parallel_.deterministic ? 1 : comm().size(); }
  LrSchedule schedule() const override;
  const Shard* shard() const override { return shard_ ? &*shard_ : nullptr; }
  bool has_replicas() const override {
    return parallel_.shard_level() != ShardLevel::parameters;
  }
  std::size_t check_replicas() const override {
    return has_replicas() ? parallel_.check_replicas : 0;
  }
  // Only NCCL's work is queued on a stream; all other backends need the host.
  bool uses_graph() const override {
    return options.graph && backend_.backend == Backend::nccl && !parallel_.deterministic;
  }
  RunDescription description() const override;
  std::vector<std::string> opening(const Mlp& model) const override;
  std::string promise() const override {
    return has_replicas() ? "the same parameters, bit for bit, on every rank"
                          : "all parameters are finite, and each is on one rank";
  }

 protected:
  std::string title() const override { return "Lesson 5: N processes train one model."; }
  bool fixed_ranks() const override { return parallel_.deterministic; }
  void declare(CommandLine& command_line) override {
    parallel_.declare(command_line, options, comm());
  }
  void check_together() override;

 private:
  ParallelOptions parallel_;
  BackendChoice backend_;
  OverlapChoice overlap_{};
  std::optional<Shard> shard_;
  ShardedOptimizer* sharded_optimizer_ = nullptr;
};

}  // namespace dist
