// Exercise: a broadcast for large tensors, in chunks.
// Check it with ./learn check 2; ./learn hint 2 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv, send_recv
#include "02_broadcast/chunks.hpp"     // chunk_range, window
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0. Afterwards
// `data` holds the root's numbers on all ranks. The algorithm has two halves:
//
//   Scatter: the root sends chunk r directly to rank r, for every rank but itself. (Chunks may
//   also be counted from the root, if both halves do so.) Chunk c is
//     window(data, chunk_range(data.size(), comm.size(), c)),   c = 0 .. comm.size() - 1
//   (see ../chunks.hpp). Chunks may differ in length by one, and may be empty. In chunk_range,
//   c wraps around: chunk comm.size() is chunk 0 again.
//
//   All-gather: the chunks go around the ring to the LEFT. In each of comm.size() - 1 steps
//   every rank, including the root, sends one chunk to comm.left() and receives one from
//   comm.right(). (The lesson's version goes to the right, after a different scatter.)
//
// Target, for any root, N ranks and a tensor of S bytes: the root sends 2 (N - 1) messages with
// 2 S (N - 1) / N bytes in total; every other rank sends N - 1 messages with S (N - 1) / N
// bytes in total, all to its left. (Empty chunks may be left out.) The function must work at
// any size without relying on MPI's buffering, so use send_recv whenever a rank sends while it
// receives. The check counts send, recv and send_recv; MPI's collectives are not allowed.
inline void scatter_all_gather(const Communicator& comm, std::span<float> data, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
