// Solutions to lesson 1's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
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

// == exchange/nonblocking
inline void exchange_nonblocking(const Communicator& comm, int peer, std::span<const float> out,
                                 std::span<float> in) {
  const int tag = 7;
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_CHECK(MPI_Isend(out.data(), mpi_count(out.size()), MPI_FLOAT, peer, tag, comm.get(),
                      &requests[0]));
  MPI_CHECK(MPI_Irecv(in.data(), mpi_count(in.size()), MPI_FLOAT, peer, tag, comm.get(),
                      &requests[1]));
  MPI_CHECK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
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

// == helpers
inline bool plays(const Communicator& comm) {
  return comm.size() > 1 && comm.rank() < 2;
}

inline void there_and_back(const Communicator& comm, std::span<char> data, int peer) {
  if (comm.rank() < peer) {
    send<char>(comm, data, peer);
    recv<char>(comm, data, peer);
  } else {
    recv<char>(comm, data, peer);
    send<char>(comm, data, peer);
  }
}

// == ping_pong/sum-of-trips
inline double ping_pong_sum_of_trips(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  double seconds = 0;
  for (int i = 0; i < repeats; ++i) {
    const double begin = MPI_Wtime();
    there_and_back(comm, data, 1 - comm.rank());
    seconds += MPI_Wtime() - begin;
  }
  return comm.rank() == 0 ? seconds / repeats / 2 : 0;
}

// == ping_pong/nonblocking
inline double ping_pong_nonblocking(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> out(bytes);
  std::vector<char> in(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    Request comes = irecv<char>(comm, in, peer);
    if (comm.rank() == 1) comes.wait();
    isend<char>(comm, out, peer).wait();
    if (comm.rank() == 0) comes.wait();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
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
inline LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

inline double n_of(const CostPoint& point) {
  return static_cast<double>(point.bytes);
}

inline LinkCost through(const CostPoint& p, const CostPoint& q) {
  const double beta = (q.seconds - p.seconds) / (n_of(q) - n_of(p));
  return line(p.seconds - beta * n_of(p), beta);
}

// == fit_alpha_beta/median-of-slopes
// Right: beta is the median of all slopes (Theil and Sen), and alpha is the median of seconds -
// beta * bytes.
inline LinkCost fit_alpha_beta_median_of_slopes(std::span<const CostPoint> points) {
  std::vector<double> slopes;
  for (const CostPoint& p : points) {
    for (const CostPoint& q : points) {
      if (p.bytes < q.bytes) slopes.push_back(through(p, q).beta_s_per_byte);
    }
  }
  const double beta = median(slopes);
  std::vector<double> rest;
  for (const CostPoint& p : points) rest.push_back(p.seconds - beta * n_of(p));
  return line(median(rest), beta);
}

// The closed form of the line with the least sum of weight * (line - seconds)^2.
inline LinkCost weighted_squares(std::span<const CostPoint> points,
                                 double (*weight)(const CostPoint&)) {
  double w = 0, wn = 0, wt = 0, wnn = 0, wnt = 0;
  for (const CostPoint& p : points) {
    const double each = weight(p);
    w += each;
    wn += each * n_of(p);
    wt += each * p.seconds;
    wnn += each * n_of(p) * n_of(p);
    wnt += each * n_of(p) * p.seconds;
  }
  const double beta = (w * wnt - wn * wt) / (w * wnn - wn * wn);
  return line((wt - beta * wn) / w, beta);
}

inline double of_ratios(const CostPoint& point) {
  return 1 / (point.seconds * point.seconds);
}

// == fit_alpha_beta/leaves-one-out
inline LinkCost fit_alpha_beta_leaves_one_out(std::span<const CostPoint> points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t left_out = 0; left_out < points.size(); ++left_out) {
    std::vector<CostPoint> rest(points.begin(), points.end());
    if (rest.size() > 3) rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
    const LinkCost cost = weighted_squares(rest, of_ratios);
    double sum = 0;
    for (const CostPoint& p : rest) {
      sum += std::abs(std::log(cost.line_seconds(p.bytes) / p.seconds));
    }
    if (!(sum < least)) continue;
    least = sum;
    best = cost;
  }
  return best;
}

// == fit_alpha_beta/slopes-of-neighbours
// The median of the slopes between neighbours. One bad time spoils two slopes, and for small
// sizes the noise exceeds the differences.
inline LinkCost fit_alpha_beta_slopes_of_neighbours(std::span<const CostPoint> points) {
  std::vector<CostPoint> sorted(points.begin(), points.end());
  std::ranges::sort(sorted, {}, &CostPoint::bytes);
  std::vector<double> slopes;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].bytes == sorted[i - 1].bytes) continue;
    slopes.push_back(through(sorted[i - 1], sorted[i]).beta_s_per_byte);
  }
  const double beta = median(slopes);
  return line(sorted.front().seconds - beta * n_of(sorted.front()), beta);
}

}  // namespace dist::exercise
