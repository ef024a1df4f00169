#pragma once
// The main program of a test's program that can do one of several things.

#include "common/command_line.hpp"
#include "common/mpi_environment.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dist {

using Cases = std::map<std::string, std::function<void(const Communicator&)>>;

// Runs the case that --case names on all ranks.
inline int run_case(int argc, char** argv, const char* program, const char* what,
                    const Cases& cases) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  std::vector<std::string> names;
  for (const auto& [one, function] : cases) names.push_back(one);
  std::string name = names.front();
  CommandLine command_line(program, what);
  command_line.choice("--case", name, names, "which case");
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;
  cases.at(name)(comm);
  return 0;
}

}  // namespace dist
