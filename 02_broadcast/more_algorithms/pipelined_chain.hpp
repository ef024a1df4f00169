// What this file adds: a broadcast for large messages. The data is cut into segments that
// follow each other down a chain of ranks, so that all links work at the same time.
// Builds on: 01, recv and isend, alpha and beta.
// Look at: the reason for isend, and the formula for the size of a segment.
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

// [4] The best segment size in bytes. Each segment costs one latency, but with large segments
// the last rank waits longer for its first segment. On p ranks, n bytes in S segments take
// S + p - 2 rounds of one segment each:
//
//   T(S)  =  (S + p - 2)(alpha + n beta / S)
//         =  S alpha  +  (p - 2) n beta / S  +  terms without S
//
// The product of the first two terms does not depend on S, so T is smallest where they are
// equal: S = sqrt((p - 2) n beta / alpha). (Hockney's model of a message, applied to pipelines
// in Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", 2007.)
//
// All ranks must pass the same `link`: otherwise they would divide the data differently, and
// wait for segments that nobody sends. The result is a multiple of a cache line.
inline std::size_t best_segment_bytes(const LinkCost& link, std::size_t bytes, int size) {
  constexpr std::size_t kLine = 64;
  const auto n = static_cast<double>(bytes);
  const double at_most = std::max(1.0, n / kLine);
  const double best =
      std::sqrt(std::max(0, size - 2) * n * link.beta_s_per_byte / link.alpha_s);
  // If alpha is 0, `best` is infinite or NaN; either way, the result is one of the bounds.
  const double segments = best >= 1 ? std::min(std::round(best), at_most) : 1.0;
  const auto segment = static_cast<std::size_t>(std::ceil(n / segments));
  return std::max(kLine, (segment + kLine - 1) / kLine * kLine);
}

// [5] Sends the root's `data` to all ranks. Called on all ranks with the same root, length and
// segment size. Cost: segments + size - 2 rounds of one segment each. A tree sends the whole
// message in each of its log2(size) rounds; many segments take about as long as one message.
//
//   size 4     round   0    1    2    3    4
//   0 -> 1             s0   s1   s2
//   1 -> 2                  s0   s1   s2
//   2 -> 3                       s0   s1   s2
template <MpiScalar T>
void broadcast_pipeline(const Communicator& comm, std::span<T> data, int root,
                        std::size_t segment_bytes) {
  const int size = comm.size();
  const int vrank = (comm.rank() - root + size) % size;  // as in binomial_tree.hpp
  const std::size_t length = std::max<std::size_t>(1, segment_bytes / sizeof(T));
  std::vector<Request> sends;
  for (std::size_t begin = 0; begin < data.size(); begin += length) {
    const std::span<T> segment = data.subspan(begin, std::min(length, data.size() - begin));
    if (vrank > 0) recv<T>(comm, segment, comm.left());
    // A blocking send could wait for the right neighbour, which would delay our next receive.
    // Nobody writes to a segment that has arrived, so sends may stay in progress until the end.
    if (vrank < size - 1) sends.push_back(isend<T>(comm, segment, comm.right()));
  }
  for (Request& request : sends) request.wait();
}

}  // namespace dist
