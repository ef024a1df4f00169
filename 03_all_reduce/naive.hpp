// What this file adds: the obvious all-reduce. Every rank sends to rank 0, which adds up all
// tensors and sends the result back, as a parameter server does.
// Builds on: 01, send and recv; 02, the flat broadcast.
// The tests compare the other algorithms with it.
#pragma once

#include "02_broadcast/flat.hpp"
#include "03_all_reduce/reduce_op.hpp"

#include <span>
#include <vector>

namespace dist {

// [1] Naive. Called on all ranks with the same length and op; afterwards all ranks hold the
// same `data`. Cost: 2 (size - 1) messages of the whole tensor through rank 0, one after the
// other. Most of the time, all but two ranks are idle, and each additional rank lengthens the
// wait for all.
template <MpiScalar T>
void all_reduce_naive(const Communicator& comm, std::span<T> data, ReduceOp op) {
  if (comm.rank() == 0) {
    std::vector<T> arrived(data.size());
    for (int rank = 1; rank < comm.size(); ++rank) {
      recv<T>(comm, arrived, rank);
      accumulate<T>(op, data, arrived);
    }
    finish(op, data, comm.size());
  } else {
    send<T>(comm, data, 0);
  }
  broadcast_flat(comm, data, 0);
}

}  // namespace dist
