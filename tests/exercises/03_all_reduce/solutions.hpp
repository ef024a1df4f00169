// Solutions to lesson 3's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
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

// == ring_reduce_scatter/by-arrival
inline void ring_reduce_scatter_by_arrival(const Communicator& comm, std::span<float> data) {
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

// == ring_all_reduce/whole-tensor
// Passes whole tensors around. The sums are right, but each rank sends N / 2 times as many
// bytes as in the lesson's ring, and rounds in its own order.
inline void ring_all_reduce_whole_tensor(const Communicator& comm, std::span<float> data) {
  std::vector<float> passing(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, passing, comm.right(), spare, comm.left());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += spare[i];
    passing.swap(spare);
  }
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// == leftward_ring/reference
inline void leftward_ring_reference(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() + 2 + step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() + 1 + step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int move = 0; move < comm.size() - 1; ++move) {
    send_recv<float>(comm, chunk(comm.rank() + move), comm.left(),
                     chunk(comm.rank() + 1 + move), comm.right());
  }
}

// == leftward_ring/by-arrival
// Right, but written from the receiver's point of view, with requests and a running index.
inline void leftward_ring_by_arrival(const Communicator& comm, std::span<float> data) {
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

// == helpers
// Passes on everything that has arrived in the second half so far, so the messages grow.
inline void pass_on_all(const Communicator& comm, std::span<float> data, int step) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
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

// == choose_all_reduce/reference
inline AllReduceAlgorithm choose_all_reduce_reference(double bytes, int ranks, double alpha_s,
                                                      double beta_s_per_byte,
                                                      double gamma_s_per_byte) {
  const double whole = alpha_s + bytes * beta_s_per_byte;
  const double chunk = alpha_s + bytes / ranks * beta_s_per_byte;
  const double add_whole = bytes * gamma_s_per_byte;
  const double add_chunk = bytes / ranks * gamma_s_per_byte;

  const auto seats = std::bit_floor(static_cast<unsigned>(ranks));
  const int doublings = std::bit_width(seats) - 1;
  double doubling = doublings * (whole + add_whole);
  if (seats != static_cast<unsigned>(ranks)) doubling += 2 * whole + add_whole;
  const double ring = (ranks - 1) * (2 * chunk + add_chunk);
  return ring < doubling ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
}

// == helpers
inline double doublings(int ranks) {
  return std::floor(std::log2(ranks));
}

inline bool is_power_of_two(int ranks) {
  return (ranks & (ranks - 1)) == 0;
}

// == choose_all_reduce/by-crossover
inline AllReduceAlgorithm choose_all_reduce_by_crossover(double n, int ranks, double alpha,
                                                         double beta, double gamma) {
  const double p = ranks;
  const double surplus = is_power_of_two(ranks) ? 0 : 1;
  const double messages = 2 * (p - 1) - doublings(ranks) - 2 * surplus;
  const double per_byte = (doublings(ranks) + 2 * surplus - 2 * (p - 1) / p) * beta +
                          (doublings(ranks) + surplus - (p - 1) / p) * gamma;
  return n * per_byte > messages * alpha ? AllReduceAlgorithm::ring
                                         : AllReduceAlgorithm::recursive_doubling;
}

}  // namespace dist::exercise
