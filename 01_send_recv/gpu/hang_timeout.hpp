// What this file adds: how long to wait until the watch has certainly reported a hang.
#pragma once

#include "common/watch.hpp"

#include <algorithm>
#include <chrono>

namespace dist {

// How long nothing may move before the watch has certainly reported a hang: after --timeout, or
// 30 s in a StartScope. 0: forever.
inline std::chrono::milliseconds hang_timeout() {
  const WatchTable* const watch = watch_table();
  const double timeout_s = watch != nullptr ? watch->timeout_s() : 60;
  const std::chrono::duration<double> longest(timeout_s > 0 ? std::max(timeout_s, 30.0) : 0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(longest);
}

}  // namespace dist
