// Exercise: the broadcast in which everybody who has the data helps.
// Check it with ./learn check 2; ./learn hint 2 helps, a little more each time.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0. Afterwards all
// ranks have in `data` what the root has in its own.
//
// Target: ceil(log2 comm.size()) rounds and comm.size() - 1 messages in all, each of the whole
// of `data`, for every root and any number of ranks. (With 0 elements, messages may be left
// out.) A rank sends one message per round, and receives one. Use send and recv of lesson 1:
//   send<float>(comm, data, dest);   recv<float>(comm, data, source);
// They are what the check counts; collectives of MPI are not allowed.
inline void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
