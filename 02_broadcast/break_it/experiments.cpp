// The experiments of lesson 2: build/bin/broken/broadcast NAME. Each has a file of its name.
#include "tools/break_it/experiment.hpp"

#include <array>

namespace dist {

using Show = bool(const Program&);
Show break_barrier_myth, break_root_only, break_root_disagree, break_no_broadcast;

static std::string no_common_clock(const Program& program) {
  if (program.comm.local_size() == program.comm.size()) return "";
  return "needs all ranks on one host, because it compares times on one clock";
}

std::span<const Experiment> experiments() {
  static constexpr std::array kExperiments{
      Experiment{"barrier-myth", "every collective is a barrier", break_barrier_myth, 2,
                 no_common_clock},
      Experiment{"root-only", "a broadcast that only the root calls must hang",
                 break_root_only},
      Experiment{"root-disagree", "any root will do", break_root_disagree},
      Experiment{"no-broadcast", "unequal replicas drift apart at once, and the loss shows it",
                 break_no_broadcast},
  };
  return kExperiments;
}

}  // namespace dist
