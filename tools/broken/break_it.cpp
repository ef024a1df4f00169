#include "tools/broken/break_it.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace dist {

void BreakOption::declare(CommandLine& command_line, const Communicator& comm) {
  std::vector<std::string> names{"list"};
  for (const Experiment& experiment : experiments_) names.emplace_back(experiment.name);
  command_line.choice("--break", name_, std::move(names),
                      "break something on purpose, and see the symptom; list: what there is");
  command_line.check([this, &comm] {
    for (const Experiment& experiment : experiments_) {
      if (name_ == experiment.name && comm.size() < experiment.fewest_ranks) {
        throw Error(fmt::format("--break: {} needs {} ranks", name_, experiment.fewest_ranks));
      }
    }
  });
}

int BreakOption::run(const BreakIt& with) const {
  const Console& console = with.console;
  if (name_ == "list") {
    for (const Experiment& experiment : experiments_) {
      console.line(fmt::format("{:<18} {}", experiment.name, experiment.belief));
      console.row({{"break", experiment.name}, {"belief", experiment.belief}});
    }
    return 0;
  }
  const Experiment& experiment = *std::ranges::find(experiments_, name_, &Experiment::name);
  if (experiment.obstacle != nullptr) {
    if (const std::string why = experiment.obstacle(with); !why.empty()) {
      if (console.speaks()) fmt::print(stderr, "error: --break: {}: {}\n", name_, why);
      return 2;
    }
  }
  console.line(fmt::format("{}: {}?", experiment.name, experiment.belief));
  return console.verdict(with.comm.all_agree(experiment.show(with)), "the symptom appeared",
                         name_ + ": the symptom did not appear here");
}

}  // namespace dist
