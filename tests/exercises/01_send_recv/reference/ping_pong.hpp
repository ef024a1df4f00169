// The reference: times the whole exchange with one clock.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace dist::exercise {

inline double ping_pong(const Communicator& comm, std::size_t bytes, int repeats) {
  if (comm.size() < 2 || comm.rank() > 1) return 0;
  std::vector<char> data(bytes);
  if (comm.rank() == 1) {
    for (int i = 0; i < repeats; ++i) {
      recv<char>(comm, data, 0);
      send<char>(comm, data, 0);
    }
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    send<char>(comm, data, 1);
    recv<char>(comm, data, 1);
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
}

}  // namespace dist::exercise
