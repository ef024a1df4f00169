// What this file adds: what decides the numbers that a run computes, as text. A checkpoint
// keeps it, so that a run never goes on as another one without a word.
#pragma once

#include "common/command_line.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace dist {

// By name: flags with their values ("--lr" -> "0.001"; of --device what was chosen), "training
// data", "ranks", "samples per step".
using RunSettings = std::map<std::string, std::string>;

// Of the flags those that decide numbers: all but the ones that say how long, where to, and
// what to look at. So a flag that is added later counts until somebody says that it does not.
// `values` are those of the command line and the training data's fingerprint.
RunSettings run_settings(const std::vector<CommandLine::Value>& values,
                         const std::string& device, std::size_t ranks,
                         std::size_t samples_per_step);

// `before` are those of `file`. Throws Error naming the flag or the thing if `now` is another
// run. Returns sentences for the reader about what may differ, and from here on does: how sums
// are rounded, and on how many ranks the samples are shared out (`any_ranks`: then the number
// of ranks changes nothing at all).
std::vector<std::string> require_same_run(const RunSettings& before, const RunSettings& now,
                                          const std::string& file, bool any_ranks);

}  // namespace dist
