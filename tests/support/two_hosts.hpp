// Runs programs on two hosts: two network namespaces on this machine (two_hosts.sh), joined by
// a virtual cable that can be slow or unplugged.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <iostream>
#include <string>

namespace dist::test {

inline const std::string kTwoHosts = SOURCE_DIR "/tests/support/two_hosts.sh ";
// Whether this machine can set up two hosts. If not (it may lack root or namespaces), this
// function prints "skipped: ", which CTest looks for.
inline bool there_are_two_hosts() {
  static const CommandResult trial = run_command(kTwoHosts + "--rate 1gbit true");
  if (trial.status == 0) return true;
  std::cout << (trial.status == 77 ? trial.out : "FAILED: " + trial.err) << std::endl;
  CHECK(trial.status == 77);
  return false;
}

// Runs a program on both hosts. A run that takes more than a minute is ended with status 124.
inline CommandResult on_two_hosts(int ranks_per_host, const std::string& program,
                                  const std::string& flags, const std::string& options = "") {
  const TemporaryFolder folder;  // for .learn/
  return run_command("cd " + folder.path().string() + " && timeout 60 " + kTwoHosts +
                     "--ranks-per-host " + std::to_string(ranks_per_host) + " " + options +
                     " " PROGRAM_DIR "/" + program + " " + flags);
}

}  // namespace dist::test
