// What this file adds: the broadcast for large messages. The data is cut into segments that
// follow each other down a chain of ranks, so that all links are busy at once.
// Builds on: 01, recv and isend.
// Look at: why a segment is passed on with isend.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace dist {

// Large enough that the latency of one message is small beside it, small enough that the last
// rank of the chain does not wait long for its first one.
constexpr std::size_t kSegmentBytes = 64 * 1024;

inline std::size_t segments_of(std::size_t bytes, std::size_t segment_bytes = kSegmentBytes) {
  return (bytes + segment_bytes - 1) / segment_bytes;
}

// Root's `data` to all ranks; called on all ranks with the same root, length and segment size.
// Cost: segments + size - 2 rounds of one segment each. A tree sends the whole message in each
// of its log2(size) rounds; here, with many segments, the time is that of sending it once.
//
//   size 4     round   0    1    2    3    4
//   0 -> 1             s0   s1   s2
//   1 -> 2                  s0   s1   s2
//   2 -> 3                       s0   s1   s2
template <MpiScalar T>
void broadcast_pipeline(const Communicator& comm, std::span<T> data, int root,
                        std::size_t segment_bytes = kSegmentBytes) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;  // as in binomial_tree.hpp
  const std::size_t length = std::max<std::size_t>(1, segment_bytes / sizeof(T));
  std::vector<Request> sends;
  for (std::size_t begin = 0; begin < data.size(); begin += length) {
    const std::span<T> segment = data.subspan(begin, std::min(length, data.size() - begin));
    if (seat > 0) recv<T>(comm, segment, comm.left());
    // Not send: it may wait until the right neighbour comes for this segment, and meanwhile the
    // next one could already be on its way to us. Nobody writes to a segment that has arrived,
    // so all of these may stay open to the end.
    if (seat < size - 1) sends.push_back(isend<T>(comm, segment, comm.right()));
  }
  for (Request& request : sends) request.wait();
}

}  // namespace dist
