// How far the run is, for whoever watches it.
#pragma once

#include "common/console.hpp"

#include <cstddef>
#include <string>

namespace dist {

// A bar on standard error for work of `total` steps. Drawn only when a person looks at it,
// which under mpirun only the launcher can know: ./learn sets LEARN_TERMINAL=1 then.
class ProgressBar {
 public:
  ProgressBar(const Console& console, std::string label, std::size_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance();
  // Takes the bar off the screen, so that a line can be printed in its place.
  void clear();

 private:
  bool visible_;
  std::string label_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::size_t drawn_ = 0;
};

}  // namespace dist
