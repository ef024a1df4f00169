// Solutions to lesson 1's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace dist::exercise {

// == exchange/reference
inline void exchange_reference(const Communicator& comm, int peer, std::span<const float> out,
                               std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, 0, in.data(),
                         mpi_count(in.size()), MPI_FLOAT, peer, 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// == ring_shift/reference
inline void ring_shift_reference(const Communicator& comm, std::span<const float> out,
                                 std::span<float> in) {
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), MPI_FLOAT, comm.right(), 0,
                         in.data(), mpi_count(in.size()), MPI_FLOAT, comm.left(), 0, comm.get(),
                         MPI_STATUS_IGNORE));
}

// == ping_pong/reference
// Times the whole exchange with one clock.
inline double ping_pong_reference(const Communicator& comm, std::size_t bytes, int repeats) {
  if (comm.size() < 2 || comm.rank() > 1) return 0;
  std::vector<char> data(bytes);
  if (comm.rank() == 1) {
    for (int i = 0; i < repeats; ++i) {
      recv<char>(comm, data, 0);
      send<char>(comm, data, 0);
    }
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    send<char>(comm, data, 1);
    recv<char>(comm, data, 1);
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
}

// == fit_alpha_beta/reference
// Of all lines through two of the points, the one with the smallest sum of
// |log(line / time)| over all points. A line that minimizes a sum of absolute values passes
// through two of the points, just as a median is one of the values.
inline LinkCost fit_alpha_beta_reference(std::span<const CostPoint> points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (const CostPoint& p : points) {
    for (const CostPoint& q : points) {
      if (p.bytes >= q.bytes) continue;  // takes each pair once, and skips pairs of equal size
      LinkCost line;
      line.beta_s_per_byte = (q.seconds - p.seconds) / static_cast<double>(q.bytes - p.bytes);
      line.alpha_s = p.seconds - line.beta_s_per_byte * static_cast<double>(p.bytes);
      double sum = 0;
      for (const CostPoint& point : points) {
        // The logarithm of a negative number is NaN, and `sum < least` is then false.
        sum += std::abs(std::log(line.line_seconds(point.bytes) / point.seconds));
      }
      if (!(sum < least)) continue;
      least = sum;
      best = line;
    }
  }
  return best;
}

// == helpers
inline double n_of(const CostPoint& point) {
  return static_cast<double>(point.bytes);
}

// The closed form of the line with the least sum of (line - seconds)^2 / seconds^power.
inline LinkCost weighted_squares(std::span<const CostPoint> points, double power) {
  double w = 0, wn = 0, wt = 0, wnn = 0, wnt = 0;
  for (const CostPoint& p : points) {
    const double each = std::pow(p.seconds, -power);
    w += each;
    wn += each * n_of(p);
    wt += each * p.seconds;
    wnn += each * n_of(p) * n_of(p);
    wnt += each * n_of(p) * p.seconds;
  }
  const double beta = (w * wnt - wn * wt) / (w * wnn - wn * wn);
  return {.alpha_s = (wt - beta * wn) / w, .beta_s_per_byte = beta};
}

}  // namespace dist::exercise
