// Initializes MPI and finalizes it. An MpiEnvironment is the first object in main.
#pragma once

namespace dist {

// Constructed on all ranks, before any other MPI call, and destroyed after every Communicator.
// Makes MPI return its errors, for MPI_CHECK to throw; an uncaught exception ends all ranks.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  ~MpiEnvironment();
  MpiEnvironment(MpiEnvironment&&) = delete;
};

}  // namespace dist
