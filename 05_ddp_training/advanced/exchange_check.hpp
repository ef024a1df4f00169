// What this file adds: checks of what an exchange did, against means computed in double.
// Called on all ranks; every function returns a rank's largest error, relative to the largest
// that is right, so that more than 1 is wrong.
#pragma once

#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/advanced/small_training.hpp"

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
  std::vector<double> mean(due.begin(), due.end()), sizes(mean);
  for (double& size : sizes) size = std::abs(size);
  all_reduce_ring<double>(comm, mean, ReduceOp::avg);
  all_reduce_ring<double>(comm, sizes, ReduceOp::avg);
  const double explained = std::pow(1 + rounding, comm.size() + 1) - 1;
  double worst = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    worst = worse(worst, std::abs(sent[i] - mean[i]) / (explained * sizes[i] + 1e-37));
  }
  return worst;
}

// What was sent and what is `kept` should be what was due, within 1e-6: rounding. If the matrix
// rank is `full`, what was sent should be the mean of the ranks' `due`, within 1e-4: a few
// products of rounded numbers. Both are relative to the largest number.
inline double error_of_low_rank(const Communicator& comm, std::span<const float> due,
                                std::span<const float> sent, std::span<const float> kept,
                                bool full) {
  std::vector<double> mean(due.begin(), due.end());
  all_reduce_ring<double>(comm, mean, ReduceOp::avg);
  double largest = 1e-37, lost = 0, off = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double number = sent[i];
    largest = std::max(largest, std::abs(double{due[i]}));
    lost = worse(lost, std::abs(number + kept[i] - due[i]));
    off = worse(off, std::abs(number - mean[i]));
  }
  return std::max(lost / largest / 1e-6, full ? off / largest / 1e-4 : 0);
}

}  // namespace dist
