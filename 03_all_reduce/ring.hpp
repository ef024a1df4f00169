// What this file adds: the ring all-reduce, the heart of data-parallel training. Every rank
// sends 2 (size - 1) / size of the tensor, which is nearly independent of how many ranks there
// are.
// Builds on: 01, send_recv; 02, chunks.
// Look at: the invariants above the two loops; and that nothing but right and left is ever
// named.
// Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009), who also prove
// that no algorithm can send less.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/reduce_op.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace dist {

// Called after each step of the two loops below, with its number; ring_picture watches so.
struct Unwatched {
  void operator()(int /*step*/) const {}
};

// Reduce-scatter: afterwards rank r holds the finished result of chunk r, and partial sums in
// all the others. Called on all ranks with the same length and op.
//
// Follow a chunk rather than a rank. Chunk c leaves rank c + 1, moves one seat to the right per
// step and collects that seat's share on arrival; after size - 1 moves it rests at rank c:
//
//   chunk 0, size 4:   rank 1 ----> rank 2 ----> rank 3 ----> rank 0
//                      a1           a1+a2        a1+a2+a3     a1+a2+a3+a0
//
// Seen from rank r: at step s pass on chunk r-1-s, receive chunk r-2-s. What arrives at step s
// is what leaves at step s + 1, so one spare chunk of memory is enough.
template <MpiScalar T, class Watch = Unwatched>
void ring_reduce_scatter(const Communicator& comm, std::span<T> data, ReduceOp op,
                         Watch after_step = {}) {
  const auto chunk = [&](int index) { return chunk_range(data.size(), comm.size(), index); };
  const std::size_t longest = chunk(0).count;  // no chunk is longer than chunk 0
  const auto spare_memory = std::make_unique_for_overwrite<T[]>(longest);
  const std::span<T> spare(spare_memory.get(), longest);
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange out = chunk(comm.rank() - 1 - step);
    const ChunkRange in = chunk(comm.rank() - 2 - step);
    // A plain send would wait for its receive once chunks outgrow MPI's own buffers, and the
    // whole ring would wait with it. send_recv cannot.
    send_recv<T>(comm, window(data, out), comm.right(), spare.first(in.count), comm.left());
    accumulate<T>(op, window(data, in), spare.first(in.count));
    after_step(step);
  }
  // Each chunk is finished on one rank only: that is why every rank ends with the same bits,
  // although each chunk was added up in another order.
  finish(op, window(data, chunk(comm.rank())), comm.size());
}

// All-gather: rank r has chunk r; afterwards everybody has every chunk. Nothing is added any
// more, finished chunks only move on to the right.
//
// Seen from rank r: at step s pass on chunk r-s, receive chunk r-1-s, straight to its place.
template <MpiScalar T, class Watch = Unwatched>
void ring_all_gather(const Communicator& comm, std::span<T> data, Watch after_step = {}) {
  const auto chunk = [&](int index) { return chunk_range(data.size(), comm.size(), index); };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange out = chunk(comm.rank() - step);
    const ChunkRange in = chunk(comm.rank() - 1 - step);
    send_recv<T>(comm, window(data, out), comm.right(), window(data, in), comm.left());
    after_step(step);
  }
}

// Called on all ranks with the same length and op; afterwards `data` is the same on all, to the
// bit. Cost: 2 (size - 1) messages of 1/size of the tensor per rank, all ranks busy all the
// time.
template <MpiScalar T>
void all_reduce_ring(const Communicator& comm, std::span<T> data, ReduceOp op) {
  ring_reduce_scatter(comm, data, op);
  ring_all_gather(comm, data);
}

}  // namespace dist
