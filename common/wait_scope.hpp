// Waits that are no call of MPI's: a flag in shared memory, a GPU's stream.
//
//   const WaitScope wait("the flag of shared-memory all-reduce", comm, peer);
//   while (flag.load() != expected) { ... }
//
// Entering and leaving such a wait is a move, and while it lasts a hang report knows whom this
// rank waits for.
#pragma once

#include "common/communicator.hpp"
#include "tools/watch/spy.hpp"

#include <optional>

namespace dist {

class WaitScope {
 public:
  // `what` must outlive the program: a string literal.
  explicit WaitScope(const char* what);                   // nobody in particular
  WaitScope(const char* what, const Communicator& comm);  // all others of `comm`
  WaitScope(const char* what, const Communicator& comm, int peer);

 private:
  void enter(const char* what, std::int32_t world_peer);

  std::optional<diagnostics::Observation> observation_;
};

}  // namespace dist
