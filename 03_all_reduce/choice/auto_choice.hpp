// What this file adds: which algorithm `auto` is, for a size and a number of ranks.
// Builds on: the cost model.
#pragma once

#include "03_all_reduce/choice/cost_model.hpp"

#include <array>

namespace dist {

// On one host, shared memory: it moves every number once, and messages would copy it several
// times. On several hosts, the algorithm that the model predicts to be fastest. `host_memory`
// says whether the ranks of each host share memory. Sends no messages.
inline AllReduceAlgorithm auto_choice(double bytes, int ranks, const StepCosts& costs,
                                      bool host_memory) {
  if (host_memory && costs.hosts == 1) return AllReduceAlgorithm::shared_memory;
  AllReduceAlgorithm best = AllReduceAlgorithm::recursive_doubling;
  for (const AllReduceAlgorithm other :
       {AllReduceAlgorithm::hierarchical, AllReduceAlgorithm::rabenseifner,
        AllReduceAlgorithm::ring_pipelined, AllReduceAlgorithm::ring}) {
    if (other == AllReduceAlgorithm::hierarchical && !host_memory) continue;
    const auto seconds = predict_all_reduce(other, bytes, ranks, costs);
    if (seconds && *seconds < *predict_all_reduce(best, bytes, ranks, costs)) best = other;
  }
  return best;
}

}  // namespace dist
