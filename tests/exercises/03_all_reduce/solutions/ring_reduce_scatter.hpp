// Right, but written from the receiver's point of view, with an index and a spare buffer.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

inline void by_arrival(const Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  std::vector<float> spare(data.size() / static_cast<std::size_t>(n) + 1);
  int passing = (comm.rank() + n - 1) % n;
  for (int left_to_do = n - 1; left_to_do > 0; --left_to_do) {
    const int coming = (passing + n - 1) % n;
    const auto in = window(data, chunk_range(data.size(), n, coming));
    const auto landing = std::span(spare).first(in.size());
    const auto out = window(data, chunk_range(data.size(), n, passing));
    Request arrives = irecv<float>(comm, landing, comm.left());
    Request leaves = isend<float>(comm, out, comm.right());
    arrives.wait();
    leaves.wait();
    std::transform(in.begin(), in.end(), landing.begin(), in.begin(), std::plus<>());
    passing = coming;
  }
}

}  // namespace dist::exercise
