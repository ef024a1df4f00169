#include "03_all_reduce/break_it/experiments.hpp"

#include "01_send_recv/perf/nccl_flag.hpp"
#include "tools/broken/experiment.hpp"

#include <array>

namespace dist {
namespace {

constexpr std::array kExperiments{
    Experiment{"forget-divide", "a sum trains like an average", break_forget_divide},
    Experiment{"chunk-off-by-one", "a test with ones is enough", break_chunk_off_by_one},
    Experiment{"full-tensor-ring", "a ring with the right sum is a ring all-reduce",
               break_full_tensor_ring, kFewestForARing, why_nothing_is_counted},
    Experiment{"swap-order", "collectives may be called in any order", break_swap_order},
    Experiment{"one-skips", "if a rank skips a call, the others time out", break_one_skips},
    Experiment{"association", "equivalent algorithms give equal bits", break_association,
               kFewestForARing},
    Experiment{"wrong-stream", "queued work is finished work", break_wrong_stream, 2,
               why_no_nccl_here},
};

}  // namespace

std::span<const Experiment> experiments() {
  return kExperiments;
}

}  // namespace dist
