// Rings to the left that are not edited copies of the reference.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Right, but written from the receiver's point of view, with requests and a running index.
inline void by_arrival(const Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  std::vector<float> landing(data.size() / static_cast<std::size_t>(n) + 1);
  int passing = (comm.rank() + 1) % n;
  for (int step = 1; step < 2 * n - 1; ++step) {
    const int coming = (passing + 1) % n;
    const auto in = window(data, chunk_range(data.size(), n, coming));
    const auto spare = std::span(landing).first(in.size());
    Request arrives = irecv<float>(comm, spare, comm.right());
    isend<float>(comm, window(data, chunk_range(data.size(), n, passing)), comm.left()).wait();
    arrives.wait();
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = step < n ? spare[i] + in[i] : spare[i];
    passing = coming;
  }
}

// The second half passes on everything that has arrived so far, so its messages grow.
inline void growing_messages(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() + 2 + step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() + 1 + step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    std::vector<float> all;
    std::vector<float> arrived;
    for (int k = 0; k <= step; ++k) {
      const std::span<float> mine = chunk(comm.rank() + k);
      all.insert(all.end(), mine.begin(), mine.end());
      arrived.resize(arrived.size() + chunk(comm.rank() + 1 + k).size());
    }
    send_recv<float>(comm, all, comm.left(), arrived, comm.right());
    auto from = arrived.begin();
    for (int k = 0; k <= step; ++k) {
      for (float& value : chunk(comm.rank() + 1 + k)) value = *from++;
    }
  }
}

}  // namespace dist::exercise
