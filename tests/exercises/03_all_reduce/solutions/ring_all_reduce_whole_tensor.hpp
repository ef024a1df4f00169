// Passes whole tensors around. The sums are right, but each rank sends N / 2 times as many
// bytes as in the lesson's ring, and rounds in its own order.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

inline void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  std::vector<float> passing(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, passing, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += spare[i];
    passing.swap(spare);
  }
  for (float& value : data) value /= static_cast<float>(comm.size());
}

}  // namespace dist::exercise
