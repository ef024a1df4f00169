// Before training, runs each part once on a little data and compares it with the course's own
// function. A mistake found here can be traced to a part; after training, only a parameter
// would be wrong.
#pragma once

#include "common/communicator.hpp"
#include "tools/mine/parts.hpp"

namespace dist::mine {

// Called on all ranks. Returns the first part whose result differs from the course's, or null
// if none does. All ranks get the same answer.
const Part* first_wrong_part(const Communicator& comm);

}  // namespace dist::mine
