// Exercise: the tree broadcast, in which every rank that has the data helps to pass it on.
// Check it with ./learn check 2; ./learn hint 2 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv
#include "tools/exercises/not_started.hpp"

#include <span>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0. Afterwards
// `data` holds the root's numbers on all ranks.
//
// Target: ceil(log2 comm.size()) rounds and comm.size() - 1 messages in total, each containing
// all of `data`, for every root and any number of ranks. (With 0 elements, no messages are
// needed.) In a round, a rank sends or receives at most one message. Use these two functions of
// lesson 1:
//   send<float>(comm, data, dest);   recv<float>(comm, data, source);
// The check counts calls to both. MPI's collectives are not allowed.
inline void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
