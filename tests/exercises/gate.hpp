// Delays the work on an emulated stream, so that a missing wait shows up every time.
#pragma once

#include "common/check_cuda.hpp"
#include "common/stream.hpp"

#if DIST_CUDA_EMULATED
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace dist::exercise {

// Holds up all later work on a stream until the host opens the gate or a time limit is reached.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    emulation::enqueue(stream.get(), [state = state_] {
      std::unique_lock lock(state->mutex);
      state->waited_in_vain = !state->changed.wait_for(lock, std::chrono::milliseconds(1500),
                                                       [&] { return state->open; });
    });
  }
  // Opens the gate. Returns false if the time limit had already been reached.
  bool open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
    return !state_->waited_in_vain;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    bool waited_in_vain = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace dist::exercise
#endif
