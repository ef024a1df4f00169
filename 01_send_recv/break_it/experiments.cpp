// The experiments of lesson 1: build/bin/broken/send_recv NAME. Each has a file of its name.
#include "01_send_recv/perf/sweep_options.hpp"
#include "tools/break_it/experiment.hpp"

#include <array>

namespace dist {

using Show = bool(const Program&);
Show break_shared_variable, break_head_to_head, break_wrong_tag, break_truncate,
    break_wrong_type, break_reuse_buffer, break_never_received, break_print_order,
    break_no_group;

static std::string no_common_file(const Program& program) {
  if (program.comm.local_size() == program.comm.size()) return "";
  return "needs all ranks on one host, so that they can write to one file";
}

std::span<const Experiment> experiments() {
  static constexpr std::array kExperiments{
      Experiment{"shared-variable", "ranks share memory", break_shared_variable},
      Experiment{"head-to-head", "it worked once, so it is correct", break_head_to_head},
      Experiment{"wrong-tag", "a receive takes whatever arrives", break_wrong_tag},
      Experiment{"truncate", "a receive takes as much as its buffer can hold", break_truncate},
      Experiment{"wrong-type", "MPI compares the types", break_wrong_type},
      Experiment{"reuse-buffer", "MPI_Isend copied my data", break_reuse_buffer},
      Experiment{"never-received", "a message without a receive is noticed",
                 break_never_received},
      Experiment{"print-order", "lines appear in the order in which they were printed",
                 break_print_order, 2, no_common_file},
      Experiment{"no-group", "NCCL calls pair up automatically", break_no_group, 2,
                 why_no_nccl_here},
  };
  return kExperiments;
}

}  // namespace dist
