// What this file adds: the ring all-reduce, the heart of data-parallel training. Every rank
// sends 2 (size - 1) / size times as many bytes as the tensor has. This amount hardly depends
// on the number of ranks.
// Builds on: 01, send_recv; 02, chunks.
// Look at: the invariants above the two loops. Each rank talks only to its two neighbours.
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009), who also prove
// that in any algorithm some rank sends as much.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/reduce_op.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace dist {

// [2] Reduce-scatter: afterwards rank r holds the finished result of chunk r, while its other
// chunks hold partial sums. Called on all ranks with the same length and op.
//
// Follow a chunk, not a rank. Chunk c leaves rank c + 1, moves one rank to the right per step
// and collects each rank's share on arrival. After size - 1 steps it stops at rank c:
//
//   chunk 0, size 4:   rank 1 ----> rank 2 ----> rank 3 ----> rank 0
//                      b            bc           bcd          abcd     (b: rank 1's share)
//
// Seen from rank r: at step s, from 1 on, send chunk r-s and receive chunk r-s-1. The chunk
// received at step s is sent at step s + 1, so one spare chunk of memory is enough.
//
// If chunks are larger than MPI's own buffers, a plain send blocks until the message is
// received. All ranks would then send, none would receive, and the ring would deadlock.
// send_recv cannot deadlock in this way.
template <MpiScalar T>
void ring_reduce_scatter(const Communicator& comm, std::span<T> data, ReduceOp op) {
  const auto chunk = [&](int index) { return chunk_range(data.size(), comm.size(), index); };
  const std::size_t longest = chunk(0).count;  // no chunk is longer than chunk 0
  const auto spare_memory = std::make_unique_for_overwrite<T[]>(longest);
  const std::span<T> spare(spare_memory.get(), longest);
  for (int step = 1; step < comm.size(); ++step) {
    const ChunkRange out = chunk(comm.rank() - step);
    const ChunkRange in = chunk(comm.rank() - step - 1);
    send_recv<T>(comm, window(data, out), comm.right(), spare.first(in.count), comm.left());
    accumulate<T>(op, window(data, in), spare.first(in.count));
  }
  // Each chunk is finished on one rank and then copied, so all ranks end with the same bits,
  // even though each chunk is added up in a different order.
  finish(op, window(data, chunk(comm.rank())), comm.size());
}

// [3] All-gather: before the call, rank r has chunk r; afterwards, every rank has all chunks.
// Finished chunks move on to the right, and nothing is added.
//
// Seen from rank r: in step s it sends chunk r - s + 1, its own at first, and receives chunk
// r - s directly into its final place.
template <MpiScalar T>
void ring_all_gather(const Communicator& comm, std::span<T> data) {
  const auto chunk = [&](int index) { return chunk_range(data.size(), comm.size(), index); };
  for (int step = 1; step < comm.size(); ++step) {
    const ChunkRange out = chunk(comm.rank() - step + 1);
    const ChunkRange in = chunk(comm.rank() - step);
    send_recv<T>(comm, window(data, out), comm.right(), window(data, in), comm.left());
  }
}

// Called on all ranks with the same length and op; afterwards all ranks hold the same bits.
// Cost: 2 (size - 1) messages per rank, each of 1/size of the tensor. No rank is ever idle.
template <MpiScalar T>
void all_reduce_ring(const Communicator& comm, std::span<T> data, ReduceOp op) {
  ring_reduce_scatter(comm, data, op);
  ring_all_gather(comm, data);
}

}  // namespace dist
