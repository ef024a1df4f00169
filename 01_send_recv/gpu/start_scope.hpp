// What the watch (common/watch.hpp) must know about NCCL.
#pragma once

#include "common/watch.hpp"

#include <chrono>

namespace dist {

// --timeout: how long nothing may move before that counts as a hang. 0: forever.
inline std::chrono::milliseconds hang_timeout() {
  const WatchTable* const watch = watch_table();
  const std::chrono::duration<double> timeout(watch != nullptr ? watch->timeout_s() : 60);
  return std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
}

}  // namespace dist
