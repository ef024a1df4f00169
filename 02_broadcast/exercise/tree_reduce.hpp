// Exercise: the tree run backwards.
// Check it with ./learn check 2; ./learn hint 2 helps, a little more each time.
#pragma once

#include "01_send_recv/send_recv.hpp"  // send, recv
#include "tools/exercises/not_started.hpp"

#include <span>
#include <vector>

namespace dist::exercise {

// Called on all ranks with the same root and number of elements, which may be 0; `sum` is as
// long as `data`, and the two do not overlap. Afterwards the root has in `sum` the sum of all
// ranks' `data`, element by element. The other ranks' `sum` holds anything: use it for what you
// have added up so far. `data` stays as it is.
//
// Target: ceil(log2 comm.size()) rounds and comm.size() - 1 messages in all, each as long as
// `data`, for every root and any number of ranks. (With 0 elements, messages may be left out.)
// A rank sends one message per round, and receives one. Use send and recv of lesson 1; they are
// what the check counts, and collectives of MPI are not allowed.
inline void tree_reduce(const Communicator& comm, std::span<const float> data,
                        std::span<float> sum, int root) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
