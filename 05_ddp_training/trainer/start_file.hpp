// What this file adds: the file that a run starts from (--init) or continues (--resume), and
// the files that it must not write over.
#pragma once

#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/trainer/model_plan.hpp"
#include "05_ddp_training/trainer/options.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

// Throws Error naming the flag if a flag names a file to write that the run reads (`data`, the
// data set's, because of `data_flag`), by whatever name. A run may continue its own checkpoint
// or replace the file that it starts from: then, returns true.
bool replaces_start(const CommandLine& flags, const Options& options,
                    const std::string& data_flag, const std::vector<std::string>& data);

class StartFile {
 public:
  // Called on rank 0. Does nothing without --init and --resume. Throws Error naming the flag
  // and the file if it holds another model, another run, numbers that are not finite or no
  // position in a data set of `samples` samples. `replaced`: the run writes a file of the same
  // name.
  void read(const Options& options, const ModelPlan& model, const RunSettings& settings,
            std::size_t samples, bool replaced);
  // Sentences about the file and how the run differs from the one that wrote it.
  const std::vector<std::string>& notes() const { return notes_; }

  // Overwrites the parameters of rank 0's model.
  void restore(Module& model, const Stream& stream) const;
  // Called on all ranks. Each rank's optimizer gets its part of the state. Returns the position
  // of the first step, which is 0 unless the run continues another.
  Position resume(const Options& options, const ModelPlan& model, const Communicator& comm,
                  const DataParallel& ddp, Optimizer& optimizer, const Stream& stream) const;

 private:
  std::optional<Checkpoint> file_;  // on rank 0, if there is one; so is the position
  Position position_;
  std::vector<std::string> notes_;
};

}  // namespace dist
