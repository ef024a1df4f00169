// What this file adds: a run on disk. The parameters stand under PyTorch's names, so that
// safetensors.torch.load_file and load_state_dict read them as they are; the optimizer's memory
// under "optimizer.", and in the metadata where the run stood and what run it was. That is all
// that the next step depends on, so a run that goes on from here takes the very steps that it
// would have taken.
// Builds on: safetensors (whole or not at all), run_settings (which run).
#pragma once

#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/model/optimizer.hpp"
#include "05_ddp_training/trainer/run_settings.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace dist {

// How far a run has come.
struct Position {
  std::size_t step = 0;   // steps done, those that a guard skipped included
  std::size_t epoch = 0;  // the epoch of the next step
  std::size_t taken = 0;  // samples of its common order that all ranks together are done with

  // One more step, over so many samples of all ranks.
  void advance(std::size_t samples, bool epoch_is_done);
  void start_next_epoch();
};

// Called on one rank: rank 0's parameters and optimizer are everybody's, and two writers would
// tear one file. Whole or not at all, as write_safetensors; throws Error naming the file.
void save_checkpoint(const std::string& path, std::span<const Parameter> parameters,
                     const Optimizer& optimizer, const Position& position,
                     const RunSettings& settings, const Stream& stream);

// A file that was read, whole, on one rank.
class Checkpoint {
 public:
  // Throws Error naming the file, as read_safetensors.
  explicit Checkpoint(std::string path);

  // Throws Error naming the file unless it holds the parameters of an Mlp of these widths, by
  // name and shape, and no others. PyTorch's save_file of such a state_dict passes.
  void require_parameters(const std::vector<std::size_t>& widths) const;
  // Where the run stood, whose epochs have `samples` samples. Throws Error naming the file if
  // it says nothing of a run, or nothing that can be, or has no checksum.
  Position position(std::size_t samples) const;
  // What run it was; empty if it says nothing.
  RunSettings settings() const;

  // Writes the file's numbers over those of the model, which require_parameters has passed.
  void restore(std::span<Parameter> parameters, const Stream& stream) const;
  // The same for the optimizer's memory; throws Error naming the file if it has none of it.
  void restore(Optimizer& optimizer, const Stream& stream) const;

 private:
  std::size_t number(const std::string& key) const;

  std::string path_;
  SafetensorsFile file_;
};

}  // namespace dist
