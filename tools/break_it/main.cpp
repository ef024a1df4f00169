// Breaks something on purpose and looks for the symptom:
//
//   mpirun -np 2 build/bin/broken/send_recv head-to-head
//   build/bin/broken/send_recv list
//
// Exits with 0 if and only if the symptom appeared, and with 2 if this machine cannot show it.
#include "common/check.hpp"
#include "common/mpi_environment.hpp"
#include "common/watch.hpp"
#include "tools/break_it/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace dist;

int run(const Experiment& experiment, const Program& program) {
  const std::string obstacle =
      experiment.obstacle != nullptr ? experiment.obstacle(program) : std::string();
  if (const auto rank = program.comm.first_to_disagree(obstacle.empty())) {
    const std::string why = broadcast_text(program.comm, obstacle, *rank);
    if (program.console.speaks()) fmt::print(stderr, "error: {}: {}\n", experiment.name, why);
    return 2;
  }
  program.console.line("{}: {}?", experiment.name, experiment.belief);
  if (const WatchTable* const watch = watch_table()) watch->limit_computing(true);
  return program.console.verdict(
      program.comm, experiment.show(program), "the symptom appeared",
      fmt::format("{}: the symptom did not appear here", experiment.name));
}

}  // namespace

[[gnu::weak]] std::string dist::why_no_kernel_of_experiments() {
  return "";
}

int main(int argc, char** argv) {
  // An experiment should not take the usual minute to report its hang. If the reader also gives
  // --timeout, the reader's value takes precedence.
  std::string timeout = "--timeout=2";
  std::vector<char*> arguments{argv[0]};
  if (watch_table() != nullptr) arguments.push_back(timeout.data());
  arguments.insert(arguments.end(), &argv[1], &argv[argc + 1]);  // including the final null
  argv = arguments.data();
  argc = static_cast<int>(arguments.size()) - 1;

  MpiEnvironment mpi(argc, argv);
  Program program{std::filesystem::path(argv[0]).filename(),
                  "Breaks something on purpose, to show the symptom.",
                  why_no_kernel_of_experiments};
  std::string name;
  std::vector<std::string> names{"list"};
  for (const Experiment& experiment : experiments()) names.emplace_back(experiment.name);
  program.flags.choice("NAME", name, names, "experiment to run, or list to show them all");
  program.declare_common(/*rows=*/false);
  program.flags.check([&] {
    if (name.empty()) throw Error("NAME: name an experiment; 'list' shows them all");
    for (const Experiment& experiment : experiments()) {
      if (name == experiment.name && program.comm.size() < experiment.fewest_ranks) {
        throw Error(fmt::format("NAME: {} needs {} ranks", name, experiment.fewest_ranks));
      }
    }
  });
  if (const auto exit = program.start(argc, argv)) return *exit;
  if (name != "list") {
    return run(*std::ranges::find(experiments(), name, &Experiment::name), program);
  }
  for (const Experiment& experiment : experiments()) {
    program.console.line("{:<18} {}", experiment.name, experiment.belief);
  }
  return 0;
}
