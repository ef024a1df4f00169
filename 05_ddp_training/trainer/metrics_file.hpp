// What this file adds: --metrics, a file of JSON lines, one per step, that a run which goes on
// continues as if it had never stopped.
#pragma once

#include "common/console.hpp"

#include <cstddef>
#include <fstream>
#include <string>

namespace dist {

class MetricsFile {
 public:
  // Called on one rank. Keeps the lines of steps before `first_step`: what an interrupted run
  // wrote after its last checkpoint is written again. Nothing is kept for 0. Throws Error
  // naming the file.
  MetricsFile(std::string path, std::size_t first_step);

  // One line, with a number under "step"; with the system when this returns. A full disk is no
  // reason to lose a run: the first line that cannot be written is told on standard error, and
  // it is the last.
  void append(const Json& row);
  // What went wrong, as a sentence; empty if nothing did.
  const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::string problem_;
};

}  // namespace dist
