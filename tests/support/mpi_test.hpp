// What a test under mpirun needs in addition to Catch2.
//
// CHECK what one rank sees, but REQUIRE only what all ranks agree on: a REQUIRE that fails on
// one rank alone ends the test on that rank, while the others wait in their next collective.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace dist::test {

// The communicator of all ranks of this test program.
const Communicator& world();

inline std::size_t ranks() {
  return static_cast<std::size_t>(world().size());
}

// Called on all ranks. Returns true if `ok` is true on all of them, for REQUIRE(all_ranks(ok)).
inline bool all_ranks(bool ok) {
  return world().all_agree(ok);
}

// The text of the Error that `action` throws, or "nothing thrown". Other exceptions fail the
// test.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

// A case that has checked nothing on some rank fails there, unless that rank says why. First,
// because nothing can be checked here, on any rank; called on all ranks.
inline void skip(const std::string& reason) {
  if (world().rank() == 0) WARN("SKIP: " << reason);
  SUCCEED();
}
// Second, because other ranks check.
inline void others_check() {
  SUCCEED();
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether two numbers agree, relative to the second one.
inline bool close(double a, double b, double tolerance = 1e-9) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

using Indices = std::vector<std::size_t>;

inline constexpr auto kMost = std::numeric_limits<std::size_t>::max();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Sizes at which collectives tend to break: zero, one, sizes near the number of ranks, a prime,
// and a size at which MPI no longer buffers messages.
inline std::vector<std::size_t> tricky_sizes() {
  const std::size_t n = ranks();
  return {0, 1, n - 1, n, n + 1, 997, 100'003};
}

// Many ranks show what their number changes; large tensors are for few ranks.
inline std::vector<std::size_t> tricky_and_large_sizes() {
  std::vector<std::size_t> all = tricky_sizes();
  if (world().size() <= 4) all.push_back(std::size_t{1} << 20);
  return all;
}

}  // namespace dist::test
