// Timing of communication: all ranks start together, the slowest rank counts, and the median of
// several runs is reported.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace dist {

inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

// Called on all ranks. Runs prepare() and operation() once to warm up, then `iterations` times,
// with a barrier between the two, and check() after each. Times only the operation. Returns on
// all ranks the median, over all iterations, of the slowest rank's time in seconds: a
// collective is as slow as the last rank to leave it.
template <class Prepare, class Operation, class Check = void (*)()>
double median_of_slowest(
    const Communicator& comm, int iterations, Prepare prepare, Operation operation,
    Check check = [] {}) {
  using Clock = std::chrono::steady_clock;
  prepare();
  operation();
  check();
  std::vector<double> seconds;
  for (int i = 0; i < iterations; ++i) {
    prepare();
    comm.barrier();
    const auto begin = Clock::now();
    operation();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    check();
  }
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, seconds.data(), mpi_count(seconds.size()), MPI_DOUBLE,
                          MPI_MAX, comm.get()));
  return median(std::move(seconds));
}

// Called on all ranks. For calls that only queue work on a GPU: queue() once to warm up, then
// `iterations` times in a row, and one wait(), as nccl-tests does. So the time until the host
// learns of the end does not count for each. Returns on all ranks the slowest rank's seconds
// per call.
template <class Queue, class Wait>
double seconds_in_a_row(const Communicator& comm, int iterations, Queue queue, Wait wait) {
  queue();
  wait();
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) queue();
  wait();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  double seconds = all.count() / iterations;
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm.get()));
  return seconds;
}

// Returns the sizes of a sweep in bytes: `smallest`, then 4 times the previous size each time,
// and `largest` at the end. The size after 0 is that of one float.
inline std::vector<std::size_t> sweep(std::size_t smallest, std::size_t largest) {
  std::vector<std::size_t> sizes{smallest};
  while (sizes.back() < largest) {
    const std::size_t last = std::max<std::size_t>(sizes.back(), 1);
    sizes.push_back(last < largest / 4 ? 4 * last : largest);
  }
  return sizes;
}

}  // namespace dist
