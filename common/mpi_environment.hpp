// Initializes MPI and finalizes it. An MpiEnvironment is the first object in main.
#pragma once

namespace dist {

// Constructed on all ranks, before any other MPI call, and destroyed after every Communicator.
// Makes MPI return its errors, so that MPI_CHECK can turn them into exceptions, and makes an
// uncaught exception end all ranks.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  ~MpiEnvironment();
  MpiEnvironment(MpiEnvironment&&) = delete;
};

}  // namespace dist
