// A progress bar for long runs.
#pragma once

#include "common/console.hpp"

#include <cstddef>
#include <string>

namespace dist {

// Draws a bar on standard error for `total` steps, but only on a terminal. Under mpirun a rank
// cannot find out whether its output reaches a terminal, so ./learn sets LEARN_TERMINAL=1 if it
// does.
class ProgressBar {
 public:
  ProgressBar(const Console& console, std::string label, std::size_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance();
  // Removes the bar from the screen, so that a line can be printed in its place.
  void clear();

 private:
  bool visible_;
  std::string label_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::size_t drawn_ = 0;
};

}  // namespace dist
