// What this file adds: checks of what an exchange did, against sums that MPI makes in double.
// Called on all ranks. Every function returns this rank's largest error, divided by the largest
// that rounding explains: above 1, the exchange is wrong.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// `sent` should be the mean of the ranks' `due`. A sum of N numbers and its division round at
// most N + 1 times, by at most `rounding` of the numbers' sizes: half a unit in the last place.
inline double error_of_mean(const Communicator& comm, std::span<const float> due,
                            std::span<const float> sent, double rounding) {
  std::vector<double> sum(due.begin(), due.end()), sizes(sum);
  for (double& size : sizes) size = std::abs(size);
  all_reduce_mpi<double>(comm, sum, ReduceOp::sum);
  all_reduce_mpi<double>(comm, sizes, ReduceOp::sum);
  const double explained = std::pow(1 + rounding, comm.size() + 1) - 1;
  double worst = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double off = std::abs(comm.size() * double{sent[i]} - sum[i]);
    worst = worse(worst, off / (explained * sizes[i] + 1e-37));
  }
  return worst;
}

// `sent` should be the part of the ranks' mean that lies in P's directions, so the rest of the
// mean is perpendicular to it, within 1e-5 of the squares. At full rank there is no rest,
// within 1e-4 of the largest number. What was sent and what is `kept`, unless that is empty,
// should be what was `due`, within 1e-6.
inline double error_of_low_rank(const Communicator& comm, std::span<const float> due,
                                std::span<const float> sent, std::span<const float> kept,
                                bool full) {
  std::vector<double> sum(due.begin(), due.end());
  all_reduce_mpi<double>(comm, sum, ReduceOp::sum);
  double largest = 1e-37, lost = 0, rest = 0, product = 0, squares = 1e-74;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double number = sent[i], mean = sum[i] / comm.size();
    largest = std::max({largest, std::abs(double{due[i]}), std::abs(number)});
    if (!kept.empty()) lost = worse(lost, std::abs(number + kept[i] - due[i]));
    rest = worse(rest, std::abs(mean - number));
    product += number * (mean - number);
    squares += mean * mean + double{due[i]} * due[i];  // ranks may cancel each other out
  }
  const double error = worse(lost / largest / 1e-6, std::abs(product) / squares / 1e-5);
  return full ? worse(error, rest / largest / 1e-4) : error;
}

}  // namespace dist
