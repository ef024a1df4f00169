// What this file adds: how the ranks of a run share its work: what carries their gradients,
// what each rank keeps, and whose samples it learns from.
#pragma once

#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/program.hpp"

#include <memory>

namespace dist {

class Parallelism {
 public:
  // Both must outlive this.
  Parallelism(const Program& program, Options& options)
      : program_(program), options_(options), ranks_(program.comm) {}

  // Throws Error naming the flag if these ranks cannot do what the flags say. check() is for
  // each rank alone, and comes first; check_together() is called on all ranks, chooses what was
  // left open, and throws on all ranks or on none.
  void check();
  void check_together();

  // The ranks of this process: itself or, with --deterministic, several virtual ones.
  const VirtualRanks& ranks() const { return ranks_; }
  Backend backend() const { return backend_.backend; }
  const std::string& why_this_backend() const { return backend_.reason; }

  // Both are called on all ranks.
  std::unique_ptr<ProcessGroup> make_group() const;
  std::unique_ptr<DataParallel> make_data_parallel(Module& model, ProcessGroup& group) const;

 private:
  const Program& program_;
  Options& options_;
  VirtualRanks ranks_;
  BackendChoice backend_;
};

}  // namespace dist
