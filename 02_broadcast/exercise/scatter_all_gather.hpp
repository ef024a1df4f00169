// Exercise: a broadcast for large tensors, in chunks.
// Check it with ./learn check 2; ./learn hint 2 helps, a little more each time.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv, send_recv
#include "02_broadcast/chunks.hpp"     // chunk_range, window
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0. Afterwards all
// ranks have in `data` what the root has in its own. In two halves:
//
//   Scatter: the root sends each other rank its chunk, directly; rank r's is chunk r. Chunk c
//   is
//     window(data, chunk_range(data.size(), comm.size(), c)),   c = 0 .. comm.size() - 1
//   (../chunks.hpp; chunks may differ in length by one, and may be empty; the c of chunk_range
//   wraps around: comm.size() is chunk 0 again).
//
//   All-gather: the chunks go round the ring to the LEFT. In each of comm.size() - 1 steps
//   every rank, the root too, sends one chunk to comm.left() and receives one from
//   comm.right(). (The lesson's own goes to the right, after another scatter.)
//
// Target, for every root, N ranks and a tensor of S bytes: the root sends 2 (N - 1) messages
// and 2 (N - 1) / N of S, every other rank N - 1 messages and (N - 1) / N of S, all to its
// left. (Empty chunks may be left out.) Right for any size, with no help from MPI's copies: use
// send_recv where both happen at once. send, recv and send_recv are what the check counts, and
// collectives of MPI are not allowed.
inline void scatter_all_gather(const Communicator& comm, std::span<float> data, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
