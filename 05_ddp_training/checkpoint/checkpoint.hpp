// What this file adds: a file from which a run can be resumed. The parameters have PyTorch's
// names, so that safetensors.torch.load_file and load_state_dict can read them. The names of
// the optimizer's state tensors begin with "optimizer.". The metadata holds the position and
// the settings of the run. The next step depends on nothing else, so a resumed run takes
// exactly the steps that the original would have taken.
// Builds on: safetensors (writes files whole or not at all).
#pragma once

#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "05_ddp_training/model/module.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/command_line.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dist {

// What determines a run's results, so that no run is silently resumed with different settings:
// flags with their values ("--lr" -> "0.001"; for --device, the chosen device), "training
// data", "ranks", and "samples per step".
using RunSettings = std::map<std::string, CommandLine::Value>;

// Selects those with an effect from `values`: the command line's and the data's hashes.
RunSettings run_settings(const std::vector<CommandLine::Value>& values,
                         const std::string& device, std::size_t ranks,
                         std::size_t samples_per_step);

// How far a run has come.
struct Position {
  std::size_t step = 0;   // steps done, including skipped ones
  std::size_t epoch = 0;  // the epoch of the next step
  std::size_t taken = 0;  // samples of this epoch that all ranks together have used

  // Counts one more step, in which all ranks together used this many samples.
  void advance(std::size_t samples, bool epoch_is_done) {
    ++step;
    taken += samples;
    if (epoch_is_done) start_next_epoch();
  }
  void start_next_epoch() {
    ++epoch;
    taken = 0;
  }
};

// What a checkpoint holds, in order: the parameters, then for each kind of the optimizer's
// state one tensor per parameter. The arguments must outlive the result.
std::vector<TensorSource> checkpoint_tensors(std::span<const Parameter> parameters,
                                             const Optimizer& optimizer);
// Adds a `warning`, unless it is empty, to the metadata, for those who read the file.
// Called on rank 0 only, as all ranks' parameters are equal and two writers would damage the
// file. On failure, keeps the old file and throws Error naming it, as write_safetensors does.
void save_checkpoint(const std::string& path, const std::vector<TensorSource>& tensors,
                     const Optimizer& optimizer, const Position& position,
                     const RunSettings& settings, const Stream& stream,
                     const std::string& warning = "");

// The content of a checkpoint file, read by one rank.
class Checkpoint {
 public:
  // Throws Error naming the file, like read_safetensors. Removes the prefix that PyTorch's
  // DistributedDataParallel (module.) or torch.compile (_orig_mod.) puts before each name.
  explicit Checkpoint(std::string path);
  const std::string& prefix() const { return prefix_; }

  // The names and shapes of its parameters, in the file's order.
  std::vector<ParameterShape> parameters() const;
  // Throws Error naming the file unless its parameters have the names and shapes `wanted`.
  // Accepts what PyTorch's save_file wrote of such a model's state_dict.
  void require_parameters(std::span<const ParameterShape> wanted) const;
  // Throws Error naming the file, the tensor and the element if a parameter, or a number of the
  // optimizer's state if this is needed, is not finite.
  void require_finite(bool with_state) const;
  // What another program has changed since our run wrote the file, as a sentence; empty if that
  // is nothing, or if no run of ours wrote it.
  std::string changed() const;
  // The position of the run; each of its epochs has `samples` samples. Throws Error naming the
  // file if the position is missing or impossible, if the file has no checksum, or if anything
  // has changed since the run wrote it.
  Position position(std::size_t samples) const;
  // Throws Error naming the file and the setting if `now` describes a different run. Returns
  // sentences for the reader about permitted differences: in how sums are rounded, and in the
  // number of ranks (which has no effect at all with `any_ranks`).
  std::vector<std::string> require_same_run(const RunSettings& now, bool any_ranks) const;

  // Overwrites the model's parameters, which require_parameters has accepted.
  void restore(std::span<Parameter> parameters, const Stream& stream) const;
  // The steps that the optimizer had taken, and a part of its state ("exp_avg.0.weight").
  // Throws Error naming the file if it is missing or has a different shape.
  std::size_t optimizer_steps() const { return number("optimizer_steps"); }
  const Tensor& state(const std::string& name, const Shape& shape) const;

 private:
  std::size_t number(const std::string& key) const;
  bool describes_its_run() const;  // with the entries that the run wrote

  std::string path_, prefix_;
  SafetensorsFile file_;
};

}  // namespace dist
