// The checks that the tests of all programs share.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace dist::test {

inline std::ptrdiff_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Checks how a program rejects bad usage: the status is 2, one error line on standard error
// names the flag, and standard output is empty.
inline void check_refused(const std::string& program, const std::string& flags,
                          const std::string& message, int ranks = 3) {
  const CommandResult result = mpirun(ranks, program, flags, kNoGrace);
  INFO(program << " " << flags << "\n" << result.out << result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  const std::string error = "error: " + message;
  CHECK(result.err.find(error) != std::string::npos);
  CHECK(result.err.find("error: ", result.err.find("error: ") + 1) == std::string::npos);
}

}  // namespace dist::test
