// Experiments that break something on purpose, so that you recognize the symptom when you meet
// it in your own code: build/bin/broken/<program> NAME. Each lesson has its own experiments in
// break_it/.
#pragma once

#include "common/program.hpp"

#include <span>
#include <string>

namespace dist {

struct Experiment {
  const char* name;    // break_it/experiments.cpp says which file it is in
  const char* belief;  // the belief that it tests, in a few words
  // Called on all ranks. Returns true on all of them if the symptom described in the file
  // appeared. If the symptom is a hang, `show` does not return: the watch ends the job with
  // status 86.
  bool (*show)(const Program&);
  int fewest_ranks = 2;
  // Called on all ranks. Returns the same text on all of them: the reason why this machine
  // cannot show the symptom, or "" if it can.
  std::string (*obstacle)(const Program&) = nullptr;
};

// The program's experiments, defined in its lesson's break_it/experiments.cpp.
std::span<const Experiment> experiments();
// Why the current GPU cannot run the lesson's kernels (choose_device). Empty, unless the same
// file defines it, too: only lesson 5 has kernels.
std::string why_no_kernel_of_experiments();

}  // namespace dist
