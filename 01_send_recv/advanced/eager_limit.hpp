// What this file adds: up to which size MPI_Send returns although nobody has come to receive.
// MPI does not say; it can be found out, without hanging and without waiting for a clock.
// Builds on: send_recv, isend.
// Look at: eager_limit.cpp, is_sent_eagerly.
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

struct EagerLimit {
  int sender = 0;
  int receiver = 0;
  bool same_host = true;
  // The largest message, in bytes, that is sent before its receive: 0 if none is.
  std::size_t bytes = 0;
  bool found = false;  // false: everything up to kLargestEagerTrial, which `bytes` is, was sent
};

constexpr std::size_t kLargestEagerTrial = std::size_t{16} << 20;

// From rank 0 to the first other rank of its host and to the first of another host, as far as
// there are such: shared memory and network have different limits. Called on all ranks, the
// same result on all.
std::vector<EagerLimit> find_eager_limits(const Communicator& comm);

// What Open MPI's own parameters say, such as "btl_vader_eager_limit is 4096"; empty if this
// MPI has no such parameter. It counts the message's header in.
std::string eager_limit_parameter(bool same_host);

}  // namespace dist
