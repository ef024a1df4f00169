// The reference: the rounds of binomial_tree.hpp in reverse.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace dist::exercise {

//   size 7     distance 4   4 -> 0   5 -> 1   6 -> 2
//              distance 2   2 -> 0   3 -> 1
//              distance 1   1 -> 0
inline void tree_reduce(const Communicator& comm, std::span<const float> data,
                        std::span<float> sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int s) { return (s + root) % size; };
  std::ranges::copy(data, sum.begin());
  std::vector<float> coming(sum.size());
  // Start from the largest power of two below size; with one rank, there is no such power.
  for (auto d = static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1))); d > 0;
       d /= 2) {
    if (seat >= d) return send<float>(comm, sum, rank_of(seat - d));
    if (seat + d >= size) continue;
    recv<float>(comm, coming, rank_of(seat + d));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
  }
}

}  // namespace dist::exercise
