// Exercise: a run that can be interrupted.
// Check your code with ./learn check 5. For hints, run ./learn hint 5 one or more times.
#pragma once

#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tools/exercises/not_started.hpp"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace dist::exercise {

// One checkpoint on the disk of rank 0's host. The other ranks may be on other hosts: `path`
// may lead nowhere there, or to a file that has nothing to do with this run.
class StateFile : public CheckpointFile {
 public:
  // Called on all ranks; `comm` outlives this object.
  StateFile(const Communicator& comm, std::string path) { not_started(); }

  // Called on all ranks with the same state. When it has returned on any rank, the file is
  // there. Only rank 0 writes, and whoever looks sees the old file or the whole new one, also
  // if the job ends half-way: write a temporary file beside it, then rename that
  // (std::filesystem::rename replaces the old file at one stroke). No other file is left
  // behind. If rank 0 cannot write (no such folder), all ranks throw Error (common/check.hpp).
  void save(const TrainingState& state) override { not_started(); }

  // Called on all ranks. Returns what was saved, to the bit, on all of them: rank 0 reads, and
  // lesson 2's broadcast carries it. The caller does not know the lengths; either may be 0.
  // If there is no such file, if it is torn (shorter or longer than it was written), or if it
  // is none of yours (text, say, or zeros: begin your file with a number of your choice), all
  // ranks throw Error.
  TrainingState load() override { not_started(); }
};

inline std::unique_ptr<CheckpointFile> checkpoint(const Communicator& comm,
                                                  const std::string& path) {
  return std::make_unique<StateFile>(comm, path);
}

}  // namespace dist::exercise
