// Solutions to lesson 3's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

namespace dist::exercise {

// == ring_reduce_scatter/reference
inline void ring_reduce_scatter_reference(const Communicator& comm, std::span<float> data) {
  const int size = comm.size();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  for (int step = 0; step < size - 1; ++step) {
    const std::span<float> out = chunk(comm.rank() - 1 - step);
    const std::span<float> in = chunk(comm.rank() - 2 - step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, out, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
}

// == ring_all_gather/reference
inline void ring_all_gather_reference(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
}

// == ring_all_reduce/reference
inline void ring_all_reduce_reference(const Communicator& comm, std::span<float> data) {
  const int size = comm.size();
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), size, index));
  };
  for (int step = 0; step < size - 1; ++step) {  // reduce-scatter
    const std::span<float> out = chunk(comm.rank() - 1 - step);
    const std::span<float> in = chunk(comm.rank() - 2 - step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, out, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (float& value : chunk(comm.rank())) value *= 1.0F / static_cast<float>(size);
  for (int step = 0; step < size - 1; ++step) {  // all-gather
    const std::span<float> out = chunk(comm.rank() - step);
    const std::span<float> in = chunk(comm.rank() - 1 - step);
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
}

// == choose_all_reduce/reference
inline AllReduceAlgorithm choose_all_reduce_reference(double bytes, int ranks, double alpha_s,
                                                      double beta_s_per_byte,
                                                      double gamma_s_per_byte) {
  const double whole = alpha_s + bytes * beta_s_per_byte;
  const double chunk = alpha_s + bytes / ranks * beta_s_per_byte;
  const double add_whole = bytes * gamma_s_per_byte;
  const double add_chunk = bytes / ranks * gamma_s_per_byte;

  const auto newranks = std::bit_floor(static_cast<unsigned>(ranks));
  const int doublings = std::bit_width(newranks) - 1;
  double doubling = doublings * (whole + add_whole);
  if (newranks != static_cast<unsigned>(ranks)) doubling += 2 * whole + add_whole;
  const double ring = (ranks - 1) * (2 * chunk + add_chunk);
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

}  // namespace dist::exercise
