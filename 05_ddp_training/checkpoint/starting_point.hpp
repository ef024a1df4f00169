// What this file adds: where training begins: with drawn parameters, with those of a file
// (--init), or where an earlier run stood when it wrote its checkpoint (--resume).
// Builds on: checkpoint, run_settings.
#pragma once

#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/trainer/training_options.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dist {

class StartingPoint {
 public:
  // Adds --init, --resume and --evaluate.
  void declare(CommandLine& command_line);

  // For a check of the command line, when `options` fit the data, of `samples` samples. With
  // `reads` (one rank) reads the file and compares it with this run: `settings`, where
  // `any_ranks` says that the number of ranks changes nothing. Throws Error naming the flag or
  // the file.
  void check(const TrainingOptions& options, const RunSettings& settings, std::size_t samples,
             bool reads, bool any_ranks = false);

  // On the rank that read: the file's numbers in place of the drawn ones, and where the run
  // stands. On the others, and without a file, changes nothing.
  Position restore(std::span<Parameter> parameters, Optimizer& optimizer,
                   const Stream& stream) const;

  bool resumed() const { return resume_; }
  // Test the parameters, train nothing.
  bool evaluates_only() const { return evaluate_; }
  // What the reader should know of it, a sentence each.
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
