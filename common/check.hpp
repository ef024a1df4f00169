// What happens when something fails: one exception type, one macro for MPI.
//
// Nobody catches in main. An exception that reaches the edge of a process is printed as
// "[rank r] fatal: ..." and ends all ranks (common/fatal.hpp), because the other
// ranks would otherwise wait for this one for ever.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dist {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `text` with its control characters as \xNN: what a file or a command line says gives the
// reader's terminal no orders.
std::string printable(std::string_view text);

// Narrows a count to the int that MPI's classic interface takes. Throws Error past 2^31 - 1:
// a count that wraps silently would send the wrong number of elements.
int mpi_count(std::size_t count);

// Throws Error with MPI's own text. Reached only because MpiEnvironment switches the default
// handler, MPI_ERRORS_ARE_FATAL, off; with that handler a status code is never returned.
void check_mpi(int status, const char* call, const char* file, int line);

}  // namespace dist

#define MPI_CHECK(call) ::dist::check_mpi((call), #call, __FILE__, __LINE__)
