// What this file adds: the broadcast for large messages. The data is cut into segments that
// follow each other down a chain of ranks, so that all links are busy at once.
// Builds on: 01, recv and isend, alpha and beta.
// Look at: why a segment is passed on with isend; and how large a segment should be.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace dist {

inline std::size_t segments_of(std::size_t bytes, std::size_t segment_bytes) {
  return (bytes + segment_bytes - 1) / segment_bytes;
}

// How many bytes a segment should have: small ones cost a latency each, large ones keep the end
// of the chain waiting for its first. n bytes in S segments take S + p - 2 rounds of one
// segment:
//
//   T(S)  =  (S + p - 2)(alpha + n beta / S)
//         =  S alpha  +  (p - 2) n beta / S  +  what does not depend on S
//
// The first term grows with S, the second falls, and the sum is least where they are equal:
// S = sqrt((p - 2) n beta / alpha). (Hockney's model of a message; so derived for pipelines in
// Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", 2007.)
//
// A function of its arguments alone: all ranks must call it with the same `link`, or they would
// wait for segments that nobody sends. In whole cache lines, at least one.
inline std::size_t best_segment_bytes(const LinkCost& link, std::size_t bytes, int size) {
  constexpr std::size_t kLine = 64;
  const auto n = static_cast<double>(bytes);
  const double at_most = std::max(1.0, n / kLine);
  const double best =
      std::sqrt(std::max(0, size - 2) * n * link.beta_s_per_byte / link.alpha_s);
  // Written so that alpha = 0, even with nothing to divide by it, ends at one of the bounds.
  const double segments = best >= 1 ? std::min(std::round(best), at_most) : 1.0;
  const auto segment = static_cast<std::size_t>(std::ceil(n / segments));
  return std::max(kLine, (segment + kLine - 1) / kLine * kLine);
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
                        std::size_t segment_bytes) {
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
