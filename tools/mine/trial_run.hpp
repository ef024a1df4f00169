// Before training, runs each part once on a little data and compares its result with that of
// the course's own function. A mistake found here can be traced to a part; after training, it
// would only show up as a wrong parameter.
#pragma once

#include "common/communicator.hpp"
#include "tools/mine/parts.hpp"

namespace dist::mine {

// Called on all ranks. Returns the first part whose result differs from the course's, or null
// if none does. All ranks get the same answer.
const Part* first_wrong_part(const Communicator& comm);

}  // namespace dist::mine
