// Timing communication: ranks start together, the slowest counts; the median of several runs.
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

// Called on all ranks, which start operation() together. Returns on all ranks how many seconds
// it took on the slowest: a collective is as slow as the last rank to leave it.
template <class Operation>
double seconds_on_slowest(const Communicator& comm, Operation operation) {
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  operation();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  double seconds = time.count();
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm.get()));
  return seconds;
}

// Called on all ranks. Runs prepare(), operation() and check() once to warm up, then
// `iterations` times. Returns on all ranks the median of seconds_on_slowest(operation).
template <class Operation, class Prepare = void (*)(), class Check = void (*)()>
double median_of_slowest(
    const Communicator& comm, int iterations, Operation operation, Prepare prepare = [] {},
    Check check = [] {}) {
  std::vector<double> seconds;
  for (int i = 0; i <= iterations; ++i) {
    prepare();
    const double time = seconds_on_slowest(comm, operation);
    if (i > 0) seconds.push_back(time);
    check();
  }
  return median(std::move(seconds));
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
