#include "01_send_recv/break_it/experiments.hpp"

#include "01_send_recv/gpu/nccl_flag.hpp"
#include "tools/broken/experiment.hpp"

#include <array>

namespace dist {
namespace {

constexpr std::array kExperiments{
    Experiment{"shared-variable", "ranks share memory", break_shared_variable},
    Experiment{"head-to-head", "it worked once, so it is correct", break_head_to_head},
    Experiment{"wrong-tag", "a receive takes whatever arrives", break_wrong_tag},
    Experiment{"truncate", "a receive takes as much as its buffer can hold", break_truncate},
    Experiment{"wrong-type", "MPI compares the types", break_wrong_type},
    Experiment{"reuse-buffer", "MPI_Isend copied my data", break_reuse_buffer},
    Experiment{"print-order", "lines appear in the order in which they were printed",
               break_print_order, 2, why_no_print_order},
    Experiment{"no-group", "NCCL calls pair up automatically", break_no_group, 2,
               why_no_nccl_here},
};

}  // namespace

std::span<const Experiment> experiments() {
  return kExperiments;
}

}  // namespace dist
