// Helpers for the tests of lessons 4 and 5: they draw numbers on each rank, copy them to each
// device and compare them with expected numbers.
#pragma once

#include "common/device.hpp"
#include "common/random.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace dist::test {

using Floats = std::vector<float>;
using Numbers = std::vector<double>;

inline std::uint64_t seed_of_this_rank(std::uint64_t seed) {
  return seed + 1000 * static_cast<std::uint64_t>(world().rank());
}

// Normally distributed numbers, different on each rank.
inline Floats noise(std::size_t count, std::uint64_t seed) {
  Generator generator(seed_of_this_rank(seed));
  Floats values(count);
  fill_normal(values, generator);
  return values;
}

// The largest difference between the elements of two lists, relative where the expected number
// is above 1. It is infinite if a number is NaN or the lengths differ.
template <class Got, class Wanted>
double largest_error(const Got& got, const Wanted& wanted) {
  if (got.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto want = static_cast<double>(wanted[i]);
    const double distance = std::abs(static_cast<double>(got[i]) - want);
    if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, distance / std::max(1.0, std::abs(want)));
  }
  return largest;
}

// The CPU, and a GPU if every rank has one. Called on all ranks.
inline std::vector<Device> devices() {
  std::vector<Device> found{Device{}};
  const Device device = choose_device(world(), "auto").device;
  if (!device.is_cpu()) found.push_back(device);
  return found;
}

inline Tensor upload(const Stream& stream, const Floats& values, const Shape& shape) {
  Tensor tensor(shape, stream.device());
  copy_bytes(stream, tensor.data(), values.data(), tensor.size_bytes());
  stream.synchronize();
  return tensor;
}
inline Tensor upload(const Stream& stream, const Floats& values) {
  return upload(stream, values, {values.size()});
}

// The result of `compute` on one CPU thread. Three threads must give the same bits; a GPU, if
// there is one, must give numbers within `tolerance`.
template <class Compute>
auto everywhere(Compute compute, double tolerance = 0.0) {
  const auto result = compute(Stream(Device{}));
  CHECK(largest_error(compute(Stream(Device{}, 3)), result) == 0.0);
  for (const Device device : devices()) {
    CAPTURE(to_string(device));
    CHECK(largest_error(compute(Stream(device)), result) <= tolerance);
  }
  return result;
}

}  // namespace dist::test
