// What this file adds: the point at which training begins: random parameters, the parameters in
// a file (--init), or an earlier run's checkpoint (--resume).
// Builds on: checkpoint, run_settings.
#pragma once

#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/trainer/options/training_options.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

class StartingPoint {
 public:
  // Adds --init, --resume and --evaluate.
  void declare(CommandLine& command_line);

  // Called after `options` were fitted to the data set of `samples` samples. Checks the flags.
  // If `reads` is true (on one rank), reads the file and compares it with this run's
  // `settings`. If `any_ranks` is true, the number of ranks may differ. Throws Error naming the
  // flag or the file.
  void check(const TrainingOptions& options, const RunSettings& settings, std::size_t samples,
             bool reads, bool any_ranks = false);

  // On the rank that read the file, replaces the random parameters with those in the file,
  // unless it `is_divided` also the optimizer's state, and returns the position. On other
  // ranks, and without a file, changes nothing.
  Position restore(std::span<Parameter> parameters, Optimizer& optimizer, const Stream& stream,
                   bool is_divided = false) const;
  // The file; null on the ranks that did not read it.
  const Checkpoint* file() const { return file_ ? &*file_ : nullptr; }

  bool resumed() const { return resume_; }
  // Whether the parameters are only tested, not trained.
  bool evaluates_only() const { return evaluate_; }
  // What to tell the user about the starting point, one sentence per element.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string init_;
  bool resume_ = false;
  bool evaluate_ = false;
  std::optional<Checkpoint> file_;
  Position position_;
  std::vector<std::string> notes_;
};

}  // namespace dist
