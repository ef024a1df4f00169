// The experiments of lesson 3: build/bin/broken/all_reduce NAME. Each has a file of its name.
#include "common/watch.hpp"
#include "tools/break_it/experiment.hpp"

#include <array>

namespace dist {

using Show = bool(const Program&);
Show break_forget_divide, break_chunk_off_by_one, break_full_tensor_ring, break_swap_order,
    break_one_skips, break_association;

static std::string why_nothing_is_counted(const Program&) {
  return watch_table() == nullptr ? "this program was built without the watch" : "";
}

// Two ranks are too few for a ring: whole tensors are then the right bytes, and a + b is b + a.
std::span<const Experiment> experiments() {
  static constexpr std::array kExperiments{
      Experiment{"forget-divide", "a sum trains like an average", break_forget_divide},
      Experiment{"chunk-off-by-one", "a test with ones is enough", break_chunk_off_by_one},
      Experiment{"full-tensor-ring", "a ring with the right sum is a ring all-reduce",
                 break_full_tensor_ring, 3, why_nothing_is_counted},
      Experiment{"swap-order", "collectives may be called in any order", break_swap_order},
      Experiment{"one-skips", "if a rank skips a call, the others time out", break_one_skips},
      Experiment{"association", "equivalent algorithms give equal bits", break_association, 3},
  };
  return kExperiments;
}

}  // namespace dist
