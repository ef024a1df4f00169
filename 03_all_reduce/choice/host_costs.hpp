// Measures the costs of adding, moving and waiting on this host: the parts of the cost model
// that send no messages.
#pragma once

#include "03_all_reduce/choice/cost_model.hpp"
#include "03_all_reduce/one_host/shared_memory.hpp"

#include <cstddef>

namespace dist {

// Called on all ranks. Measures `reduce` and, unless `shared` is null, also `barrier`, `move`
// and `segment_block`, for sizes up to `most_bytes`. Stores the results in `costs`, with equal
// values on all ranks. Larger sizes are extrapolated.
void measure_host_costs(const Communicator& comm, SharedMemoryAllReduce* shared,
                        std::size_t most_bytes, StepCosts& costs);

}  // namespace dist
