#include "common/check.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <limits>

namespace dist {

int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(
        fmt::format("{} elements in one message: MPI's int counts end at {}; send it in pieces",
                    count, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(count);
}

void check_mpi(int status, const char* call, const char* file, int line) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(fmt::format("{}: {} at {}:{}", text, call, file, line));
}

}  // namespace dist
