// Before training: each part once, on a little data, beside the course's own function. A
// mistake here has a name; after a thousand messages it would only be a wrong parameter.
#pragma once

#include "common/communicator.hpp"
#include "tools/mine/parts.hpp"

namespace dist::mine {

// Called on all ranks. The first part that does not do what the course's does, the same on all
// ranks; null if all five do.
const Part* first_wrong_part(const Communicator& comm);

}  // namespace dist::mine
