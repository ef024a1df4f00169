// Experiments that break something on purpose, so that its symptom has been seen once before it
// comes uninvited: `--break NAME`. Each lesson keeps its own in break_it/, one file each.
#pragma once

#include "common/command_line.hpp"
#include "common/communicator.hpp"
#include "common/console.hpp"
#include "common/stream.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace dist {

// What an experiment has to work with.
struct BreakIt {
  const Console& console;
  const Communicator& comm;
  const Stream& stream;
  std::uint64_t seed = 0;  // of --seed, for an experiment that draws numbers
};

struct Experiment {
  const char* name;    // of --break, and of its file: break_it/NAME.cpp
  const char* belief;  // what it tests, in a few words
  // Called on all ranks. True, on all of them, if the symptom that the file promises was seen.
  // One whose symptom is a hang does not return: the watch ends the job with status 86.
  bool (*show)(const BreakIt&);
  int fewest_ranks = 2;
  // Called on all ranks; the same answer on all: why this machine cannot show it. Empty if it
  // can.
  std::string (*obstacle)(const BreakIt&) = nullptr;
};

// The flag --break of one program.
class BreakOption {
 public:
  // `experiments` must outlive this.
  explicit BreakOption(std::span<const Experiment> experiments) : experiments_(experiments) {}

  // Experiments with too few ranks are refused as bad usage.
  void declare(CommandLine& command_line, const Communicator& comm);

  // Whether the reader asked for an experiment, or for their list.
  bool wanted() const { return !name_.empty(); }
  // Called on all ranks, when wanted(). Returns the exit status: 0 exactly when the symptom
  // appeared, 2 where this machine cannot show it.
  int run(const BreakIt& with) const;

 private:
  std::span<const Experiment> experiments_;
  std::string name_;
};

}  // namespace dist
