// Exercise: the first half of the ring all-reduce.
// Check it with ./learn check 3; ./learn hint 3 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/not_started.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same number of elements, which may be 0. Chunk c of the data is
//   window(data, chunk_range(data.size(), comm.size(), c)),   c = 0 .. comm.size() - 1
// (../../02_broadcast/chunks.hpp; chunks may differ in length by one, and may be empty).
//
// Afterwards chunk r of rank r's data holds the sum of all ranks' chunks r. The other chunks
// may hold any values.
//
// Target: comm.size() - 1 messages per rank, each of one chunk, all to comm.right(). (Empty
// chunks may be left out.) The function must work for any number of ranks, including 1, and for
// data of any size. It must not rely on MPI's buffering, so use this function of lesson 1:
//   send_recv<float>(comm, out, comm.right(), in, comm.left());
inline void ring_reduce_scatter(const Communicator& comm, std::span<float> data) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
