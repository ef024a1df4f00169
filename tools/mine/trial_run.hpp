// Before training, runs each part once on a little data, beside the course's own function. A
// mistake found here names its part; after training it would only be a wrong parameter.
#pragma once

#include "common/communicator.hpp"
#include "tools/mine/parts.hpp"

namespace dist::mine {

// Called on all ranks. Returns the first part that does not do what the course's does, the same
// on all ranks, or null if all five do.
const Part* first_wrong_part(const Communicator& comm);

}  // namespace dist::mine
