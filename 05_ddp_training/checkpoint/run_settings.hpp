// What this file adds: the settings that determine a run's results, as text. A checkpoint
// stores them, so that a run is never silently resumed with different settings.
#pragma once

#include "common/command_line.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace dist {

// Settings by name: flags with their values ("--lr" -> "0.001"; for --device, the chosen
// device), "training data", "ranks", and "samples per step".
using RunSettings = std::map<std::string, std::string>;

// Selects the flags that determine results: all but those for the length of the run, its files,
// and its output. A new flag therefore counts until it is excluded explicitly. `values`
// contains the command line's values and the training data's hash.
RunSettings run_settings(const std::vector<CommandLine::Value>& values,
                         const std::string& device, std::size_t ranks,
                         std::size_t samples_per_step);

// `before` holds the settings in `file`. Throws Error naming the setting if `now` describes a
// different run. Returns sentences for the reader about permitted differences: in how sums are
// rounded, and in the number of ranks (which has no effect at all with `any_ranks`).
std::vector<std::string> require_same_run(const RunSettings& before, const RunSettings& now,
                                          const std::string& file, bool any_ranks);

}  // namespace dist
