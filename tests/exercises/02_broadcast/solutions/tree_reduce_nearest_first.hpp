// Right: seats that are multiples of 2d receive from the seat at distance d, for d = 1, 2, 4,
// ...
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace dist::exercise {

inline void tree_reduce(const Communicator& comm, std::span<const float> data,
                        std::span<float> sum, int root) {
  const int size = comm.size();
  const int seat = (comm.rank() - root + size) % size;
  const auto rank_of = [&](int s) { return (s + root) % size; };
  std::ranges::copy(data, sum.begin());
  std::vector<float> coming(sum.size());
  for (int d = 1; d < size; d *= 2) {
    if (seat % (2 * d) == d) return send<float>(comm, sum, rank_of(seat - d));
    if (seat + d >= size) continue;
    recv<float>(comm, coming, rank_of(seat + d));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coming[i];
  }
}

}  // namespace dist::exercise
