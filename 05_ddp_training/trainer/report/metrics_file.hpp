// What this file adds: --metrics, a file of JSON lines, one per step. A resumed run continues
// the file as if the run had never stopped.
#pragma once

#include "common/console.hpp"

#include <cstddef>
#include <fstream>
#include <string>

namespace dist {

class MetricsFile {
 public:
  // Called on one rank. Keeps only the lines for steps before `first_step`, because later steps
  // are repeated and logged again. Throws Error naming the file.
  MetricsFile(std::string path, std::size_t first_step);

  // Hands one line to the operating system. `row` must have a number under "step". A full disk
  // must not end the run: the first line that cannot be written is reported on standard error,
  // and nothing is written after it.
  void append(const Json& row);
  // What went wrong, as a sentence; empty if nothing went wrong.
  const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::string problem_;
};

}  // namespace dist
