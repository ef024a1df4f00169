// What this file adds: a slow link, pretended by sleeping.
#pragma once

#include "common/watch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dist {

// Takes as long as `bytes` would on a link of so many Gbit/s.
inline void pretend_to_send(double bytes, double gbits) {
  constexpr double kPiece_s = 0.05;  // each piece counts as progress: the pause is no hang
  for (double left_s = 8 * bytes / gbits / 1e9; left_s > 0; left_s -= kPiece_s) {
    const WaitScope wait("the pretended link");
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s, kPiece_s)));
  }
}

}  // namespace dist
