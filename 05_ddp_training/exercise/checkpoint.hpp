// Exercise: save a run to a file, and load it on all ranks.
// Check it with ./learn check 5; ./learn hint 5 prints the next hint.
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

// One checkpoint on the disk of rank 0's host. The other ranks may be on different hosts, where
// `path` may not exist or may name an unrelated file.
class StateFile : public CheckpointFile {
 public:
  // Called on all ranks. `comm` outlives this object.
  StateFile(const Communicator& comm, std::string path) { not_started(); }

  // Called on all ranks with the same state. Once save has returned on any rank, the file
  // exists. Only rank 0 writes. Readers always see either the whole old file or the whole new
  // one, even if the job is killed during the call: write a temporary file in the same folder
  // and then rename it, because std::filesystem::rename replaces the old file atomically. Leave
  // no other file behind. All ranks throw Error (common/check.hpp) if rank 0 cannot write, for
  // example because the folder does not exist or the disk is full; an old file then stays as it
  // was.
  void save(const TrainingState& state) override { not_started(); }

  // Called on all ranks. Returns exactly what was saved, on every rank: rank 0 reads it, and
  // lesson 2's broadcast distributes it. The caller does not know the lengths of the state's
  // two vectors, and either may be 0. All ranks throw Error if the file does not exist, if it
  // is shorter or longer than what was written, or if your code did not write it, for example
  // if it contains text or zeros. (Begin your files with a number of your choice.)
  TrainingState load() override { not_started(); }
};

inline std::unique_ptr<CheckpointFile> checkpoint(const Communicator& comm,
                                                  const std::string& path) {
  return std::make_unique<StateFile>(comm, path);
}

}  // namespace dist::exercise
