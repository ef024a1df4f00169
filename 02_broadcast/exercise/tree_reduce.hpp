// Exercise: the sum of all ranks' data, by the broadcast's tree in reverse.
// Check it with ./learn check 2; ./learn hint 2 prints the next hint.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv
#include "tools/exercises/not_started.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0; `sum` is as
// long as `data`, and the two do not overlap. Afterwards the root's `sum` holds the sum of all
// ranks' `data`, element by element. The other ranks may keep partial sums in their `sum`,
// whose final contents do not matter. `data` does not change.
//
// Target: ceil(log2 comm.size()) rounds and comm.size() - 1 messages in total, each as long as
// `data`, for every root and any number of ranks. (With 0 elements, no messages are needed.) In
// one round, a rank can send one message and receive one message. Use lesson 1's send and recv:
// the check counts them, and MPI's collectives are not allowed.
inline void tree_reduce(const Communicator& comm, std::span<const float> data,
                        std::span<float> sum, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
