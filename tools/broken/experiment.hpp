// Experiments that break something on purpose, so that its symptom has been seen once before it
// comes uninvited: build/bin/broken/<program> NAME. Each lesson keeps its own in break_it/, one
// file each.
#pragma once

#include "common/program.hpp"

#include <span>
#include <string>

namespace dist {

struct Experiment {
  const char* name;    // and of its file: break_it/NAME.cpp
  const char* belief;  // what it tests, in a few words
  // Called on all ranks. True, on all of them, if the symptom that the file promises was seen.
  // One whose symptom is a hang does not return: the watch ends the job with status 86.
  bool (*show)(const Program&);
  int fewest_ranks = 2;
  // Called on all ranks; the same answer on all: why this machine cannot show it. Empty if it
  // can.
  std::string (*obstacle)(const Program&) = nullptr;
};

// This program's, from break_it/experiments.cpp of its lesson.
std::span<const Experiment> experiments();

}  // namespace dist
