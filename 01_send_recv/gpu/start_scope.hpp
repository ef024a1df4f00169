// What the watch (common/watch.hpp) must know about NCCL.
#pragma once

#include "common/watch.hpp"

#include <chrono>

namespace dist {

// A stage in which ranks wait for each other to start, such as the first contact between their
// GPUs. Like MPI's own start, it may take longer than --timeout.
class StartScope {
 public:
  StartScope() {
    if (watch_ != nullptr) watch_->set_starting(true);
  }
  ~StartScope() {
    if (watch_ != nullptr) watch_->set_starting(false);
  }
  StartScope(const StartScope&) = delete;
  StartScope& operator=(const StartScope&) = delete;

 private:
  const WatchTable* watch_ = watch_table();
};

// --timeout: how long nothing may move before that counts as a hang. 0: forever.
inline std::chrono::milliseconds hang_timeout() {
  const WatchTable* const watch = watch_table();
  const std::chrono::duration<double> timeout(watch != nullptr ? watch->timeout_s() : 60);
  return std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
}

}  // namespace dist
