#include "common/check.hpp"

#include "common/check_cuda.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <limits>

namespace dist {

std::string printable(std::string_view text) {
  std::string result;
  unsigned char before = 0;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    // Unicode's other control characters, U+0080 to U+009F, are C2 80 to C2 9F in UTF-8.
    const bool second_block = before == 0xc2 && byte >= 0x80 && byte <= 0x9f;
    const bool control = byte < 0x20 || byte == 0x7f || second_block;
    result += control ? fmt::format("\\x{:02x}", byte) : std::string(1, character);
    before = byte;
  }
  return result;
}

int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(
        fmt::format("{} elements do not fit in one message, because MPI's int counts end at "
                    "{}; split the message",
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

#if DIST_WITH_CUDA
void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  // Read the error, because CUDA keeps it until then and would report it for the next launch.
  static_cast<void>(cudaGetLastError());
  throw Error(fmt::format("{} ({}): {} at {}:{}", cudaGetErrorString(status),
                          cudaGetErrorName(status), call, file, line));
}
#endif

}  // namespace dist
