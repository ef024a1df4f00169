// What a test under mpirun needs in addition to Catch2.
//
// CHECK what one rank sees, but REQUIRE only what all ranks agree on: a REQUIRE that fails on
// one rank alone ends the test on that rank, while the others wait in their next collective.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"
#include "common/device.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace dist::test {

// The communicator of all ranks of this test program.
const Communicator& world();

// Whether this build has emulated GPUs, and why the ranks cannot use NCCL on theirs (called on
// all ranks; empty if they can). mpi_main.cpp knows, so that what asks is compiled alike in all
// builds.
bool is_emulated();
std::string why_no_nccl(Device gpu);

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

// Where two lists differ first, for CHECK(first_difference(got, wanted) == ""); a long list
// itself would show only its first elements.
template <class Got, class Wanted>
std::string first_difference(const Got& got, const Wanted& wanted) {
  if (got.size() != wanted.size()) {
    return std::to_string(got.size()) + " elements instead of " + std::to_string(wanted.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(got[i] == wanted[i])) {
      return "element " + std::to_string(i) + " is " + Catch::Detail::stringify(got[i]) +
             " instead of " + Catch::Detail::stringify(wanted[i]);
    }
  }
  return "";
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
