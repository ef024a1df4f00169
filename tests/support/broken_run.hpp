// Runs break-it experiments and checks what they all have in common.
#pragma once

#include "tests/support/program_checks.hpp"

#include <iostream>
#include <string>
#include <vector>

namespace dist::test {

inline CommandResult broken(int ranks, const std::string& program, const std::string& name,
                            const std::string& flags = "") {
  return mpirun(ranks, "broken/" + program, name + " " + flags, kNoGrace);
}

// Checks the output shown in the READMEs, and returns it: it fills at most half a screen and
// contains `line` and the verdict.
inline std::string check_text(int ranks, const std::string& program, const std::string& name,
                              const std::string& line = "") {
  const CommandResult result = broken(ranks, program, name);
  INFO(ranks << " ranks, " << name << "\n" << result.out << result.err);
  CHECK(result.status == 0);
  CHECK(result.says(line));
  CHECK(result.says("verified: the symptom appeared"));
  CHECK(lines(result.out) <= 15);
  return result.out;
}

// Runs an experiment that hangs until the watch ends it.
inline CommandResult hang(int ranks, const std::string& program, const std::string& name) {
  const CommandResult result = broken(ranks, program, name, "--timeout 2");
  INFO(ranks << " ranks, " << name << "\n" << result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.says("hang: nothing has moved on this host for 2 s (--timeout)"));
  CHECK(lines(result.out) <= 15);
  return result;
}

// Checks that `list` prints one line per experiment, beginning with the experiment's name.
inline void check_list(const std::string& program, const std::vector<std::string>& names) {
  const CommandResult result = broken(2, program, "list");
  CHECK(result.status == 0);
  std::istringstream text(result.out);
  std::vector<std::string> first_words;
  for (std::string line; std::getline(text, line);) {
    first_words.push_back(line.substr(0, line.find(' ')));
  }
  CHECK(first_words == names);
}

// Whether the experiment finds the GPUs that it needs. If it does not, it must give `obstacle`
// as the reason.
inline bool can_run(int ranks, const std::string& program, const std::string& name,
                    const std::string& obstacle = "") {
  const CommandResult result = broken(ranks, program, name, "--timeout 2");
  if (result.status != 2) return true;
  CHECK(result.err.find("error: " + name + ": " + obstacle) == 0);
  CHECK(result.out.empty());
  std::cout << name << ": not run: " << result.err.substr(0, result.err.find('\n'))
            << std::endl;
  return false;
}

}  // namespace dist::test
