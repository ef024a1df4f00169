// How failures are reported: one exception type, and one macro for MPI.
//
// No main catches exceptions. An exception that leaves main is printed as "[rank r] fatal: ..."
// and ends all ranks (common/fatal.hpp): the others would wait forever for the one that failed.
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

// Writes control characters as \xNN: text from outside must not control a reader's terminal.
std::string printable(std::string_view text);

// Narrows a count to the int that MPI's classic interface takes. Throws Error above 2^31 - 1,
// because a count that wraps silently would send the wrong number of elements.
int mpi_count(std::size_t count);

// Throws Error with MPI's own text. This works because MpiEnvironment replaces the default
// handler, MPI_ERRORS_ARE_FATAL, under which MPI never returns an error status.
void check_mpi(int status, const char* call, const char* file, int line);

}  // namespace dist

#define MPI_CHECK(call) ::dist::check_mpi((call), #call, __FILE__, __LINE__)
