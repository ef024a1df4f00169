// Shared by the fault tests: functions that say how often to cause a fault, print a test's
// figure, and interrupt runs.
#pragma once

#include "tests/support/program_checks.hpp"
#include "tests/support/training_run.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>

namespace dist::test {

// How often to cause a fault; FAULTS_LONG=1 selects the long form.
inline int times(int few, int many) {
  return std::getenv("FAULTS_LONG") != nullptr ? many : few;
}

// A random number of seconds, to be passed to the command sleep.
inline std::string random_moment(std::mt19937& random, unsigned most_ms) {
  return std::to_string(0.001 * static_cast<double>(random() % most_ms));
}

// Prints the figure that shows how a fault was survived.
inline void figure(int row, const std::string& text) {
  std::cout << "figure " << row << ": " << text << std::endl;
}

// Two uneven batches per step, and so many steps that the run cannot end before it is
// interrupted.
inline const std::string kRun =
    "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 --accumulate 2 "
    "--max-steps 1000000 ";

inline std::string files(const TemporaryFolder& folder, const std::string& name) {
  return "--checkpoint " + (folder / (name + ".st")) + " --metrics " +
         (folder / (name + ".jsonl")) + " ";
}

// Starts ddp_training, waits until it has written this many lines of metrics, and then runs
// `action`. In `action`, $mpirun is the process id of mpirun, $ranks holds those of the ranks,
// and $last is the last of these. The returned status is mpirun's.
inline CommandResult interrupted(int ranks, const std::string& flags,
                                 const std::string& metrics, int lines,
                                 const std::string& action) {
  return run_command(
      "timeout -k 10 120 " MPIEXEC " -np " + std::to_string(ranks) +
      " " PROGRAM_DIR "/ddp_training " + flags + " & t=$!; until [ -e " + metrics +
      " ] && [ $(wc -l <" + metrics + ") -ge " + std::to_string(lines) +
      " ] || ! kill -0 $t; do sleep 0.02; done; mpirun=$(cat /proc/$t/task/$t/children); "
      "set -- $(cat /proc/${mpirun% }/task/${mpirun% }/children); ranks=\"$*\"; last=$" +
      std::to_string(ranks) + "; " + action + "; wait $t");
}

// Resumes the run saved in the files "cut" and continues it for some steps. The resumed run's
// parameters, optimizer state and log must equal those of an uninterrupted run bit for bit.
inline void check_that_it_goes_on(const TemporaryFolder& folder, int ranks,
                                  const std::string& flags, int more_steps = 40) {
  const std::size_t steps =
      static_cast<std::size_t>(lines(content_of(folder / "cut.jsonl")) + more_steps);
  const std::string until = flags + "--json --max-steps " + std::to_string(steps) + " ";
  const CommandResult resumed =
      mpirun(ranks, "ddp_training", until + files(folder, "cut") + "--resume");
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  const nlohmann::json whole =
      trained(mpirun(ranks, "ddp_training", until + files(folder, "whole"))).final;
  const nlohmann::json final = resumed.rows().back();
  CHECK(final["steps"] == steps);
  CHECK(final["parameters"] == whole["parameters"]);
  const bool same_file = content_of(folder / "cut.st") == content_of(folder / "whole.st");
  CHECK(same_file);
  CHECK(content_of(folder / "cut.jsonl") == content_of(folder / "whole.jsonl"));
  for (const char* name : {"cut.st", "cut.jsonl", "whole.st", "whole.jsonl"}) {
    std::filesystem::remove(folder / name);
  }
}

}  // namespace dist::test
