// What this file adds: the eager limit, the size up to which MPI_Send returns before the
// receive is called. MPI does not report this limit, but a program can measure it without
// hanging and without timing anything.
// Look at: eager_limit.cpp, is_sent_eagerly.
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <vector>

namespace dist {

constexpr std::size_t kLargestEagerTrial = std::size_t{16} << 20;

struct EagerLimit {
  int receiver = 0;  // rank 0 sends
  bool same_host = true;
  // The size in bytes of the largest message that is sent before its receive is called; 0 if
  // there is none.
  std::size_t bytes = 0;
  bool found = false;  // false if even kLargestEagerTrial bytes were sent early
};

// Returns the limits for messages from rank 0 to the next rank on its host and to the first
// rank on a different host, if these ranks exist. Shared memory and the network have different
// limits. Called on all ranks; all get the same result.
std::vector<EagerLimit> find_eager_limits(const Communicator& comm);

}  // namespace dist
