// What this file adds: the obvious broadcast. The root sends to every other rank in turn.
// Builds on: 01, send and recv.
// This broadcast is the baseline for the better algorithms.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <span>

namespace dist {

// [1] Sends the root's `data` to all ranks. Called on all ranks with the same root and length.
// Cost: size - 1 rounds. The root sends in every round, while the other ranks only wait.
template <MpiScalar T>
void broadcast_flat(const Communicator& comm, std::span<T> data, int root) {
  if (comm.rank() != root) {
    recv<T>(comm, data, root);
    return;
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) send<T>(comm, data, rank);
  }
}

}  // namespace dist
