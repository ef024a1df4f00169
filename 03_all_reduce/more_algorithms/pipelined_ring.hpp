// What this file adds: the ring in segments, of which one travels while another is added up.
// Builds on: 01, isend and irecv; the ring.
// Look at: post(). It starts the next segment's transfer before the current segment has
// arrived, which requires non-blocking calls. Data sent in step s must have been added up in
// step s - 1, so a chunk of a single segment allows no overlap.
#pragma once

#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// This size is large enough that latency is a small part of a segment's time, and small enough
// that a segment is still in the second-level cache when it is added up.
constexpr std::size_t kRingSegmentBytes = 128 * 1024;

// The number of segments per chunk, computed from the longest chunk so that all ranks agree. It
// is at least 1, so that an empty tensor needs as many messages as in the plain ring.
inline std::size_t ring_segments(std::size_t bytes, int ranks) {
  const std::size_t chunk =
      (bytes + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  return std::max<std::size_t>(1, (chunk + kRingSegmentBytes - 1) / kRingSegmentBytes);
}

// [7] Pipelined ring. Called on all ranks with the same length and op; afterwards all ranks
// hold the same bits. Sends 2 (size - 1) ring_segments(...) messages per rank.
//
// Both halves of the ring form one sequence of 2 (size - 1) steps: in step s a rank sends chunk
// rank-1-s and receives chunk rank-2-s, modulo size. In the first size - 1 steps, arriving
// chunks are added up; later chunks are finished and only stored.
template <MpiScalar T>
void all_reduce_pipelined_ring(const Communicator& comm, std::span<T> data, ReduceOp op) {
  const int size = comm.size();
  const int steps = 2 * (size - 1);
  const auto segments = static_cast<int>(ring_segments(data.size_bytes(), size));
  const int transfers = steps * segments;
  const auto segment = [&](int chunk, int index) {
    const std::span<T> whole = window(data, chunk_range(data.size(), size, chunk));
    return window(whole, chunk_range(whole.size(), segments, index));
  };

  const std::size_t longest =
      chunk_range(chunk_range(data.size(), size, 0).count, segments, 0).count;
  std::vector<T> spare_memory(2 * longest);
  // Transfer i carries segment i % segments of step i / segments.
  const auto arrives = [&](int i) {
    return segment(comm.rank() - 2 - i / segments, i % segments);
  };
  const auto adds = [&](int i) { return i / segments < size - 1; };
  const auto lands = [&](int i) {
    if (!adds(i)) return arrives(i);
    const std::size_t spare = i % 2 == 0 ? 0 : longest;
    return std::span<T>(spare_memory).subspan(spare, arrives(i).size());
  };

  struct Transfer {
    Request in, out;
  };
  std::array<std::optional<Transfer>, 2> under_way;
  const auto post = [&](int i) {
    // Receive first, because a message whose receive is already posted needs no extra copy.
    Request in = irecv<T>(comm, lands(i), comm.left());
    Request out =
        isend<T>(comm, segment(comm.rank() - 1 - i / segments, i % segments), comm.right());
    under_way[static_cast<std::size_t>(i % 2)].emplace(std::move(in), std::move(out));
  };
  const bool ahead = segments > 1;
  if (transfers > 0) post(0);
  for (int i = 0; i < transfers; ++i) {
    if (ahead && i + 1 < transfers) post(i + 1);
    std::optional<Transfer>& transfer = under_way[static_cast<std::size_t>(i % 2)];
    transfer->in.wait();
    if (adds(i)) {
      accumulate<T>(op, arrives(i), lands(i));
      // After the last step of the first half, this rank's own chunk is complete.
      if (i / segments == size - 2) finish(op, arrives(i), size);
    }
    transfer->out.wait();
    transfer.reset();
    if (!ahead && i + 1 < transfers) post(i + 1);
  }
  if (size == 1) finish(op, data, size);
}

}  // namespace dist
