#include "tools/watch/clock_offset.hpp"

#include "tools/watch/observation.hpp"

#include <limits>

namespace dist::watch {
namespace {

constexpr int kQuestions = 64;

void answer(MPI_Comm leaders, int from) {
  for (int i = 0; i < kQuestions; ++i) {
    PMPI_Recv(nullptr, 0, MPI_BYTE, from, 0, leaders, MPI_STATUS_IGNORE);
    const std::uint64_t now = now_ns();
    PMPI_Send(&now, 1, MPI_UINT64_T, from, 0, leaders);
  }
}

std::int64_t ask(MPI_Comm leaders) {
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  std::int64_t offset = 0;
  for (int i = 0; i < kQuestions; ++i) {
    const std::uint64_t begin = now_ns();
    std::uint64_t theirs = 0;
    PMPI_Send(nullptr, 0, MPI_BYTE, 0, 0, leaders);
    PMPI_Recv(&theirs, 1, MPI_UINT64_T, 0, 0, leaders, MPI_STATUS_IGNORE);
    const std::uint64_t round_trip = now_ns() - begin;
    if (round_trip >= shortest) continue;
    shortest = round_trip;
    // Assume that rank 0 read its clock half a round trip after the question was sent.
    offset = static_cast<std::int64_t>(theirs - (begin + round_trip / 2));
  }
  return offset;
}

}  // namespace

std::int64_t clock_offset_to_rank_0() {
  MPI_Comm host = MPI_COMM_NULL;
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int local_rank = 0;
  int rank = 0;
  PMPI_Comm_rank(host, &local_rank);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm leaders = MPI_COMM_NULL;
  PMPI_Comm_split(MPI_COMM_WORLD, local_rank == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
  std::int64_t offset = 0;
  if (local_rank == 0) {
    int hosts = 0;
    int host_index = 0;
    PMPI_Comm_size(leaders, &hosts);
    PMPI_Comm_rank(leaders, &host_index);
    for (int other = 1; other < hosts; ++other) {
      if (host_index == 0) answer(leaders, other);
      if (host_index == other) offset = ask(leaders);
    }
    PMPI_Comm_free(&leaders);
  }
  PMPI_Bcast(&offset, 1, MPI_INT64_T, 0, host);
  PMPI_Comm_free(&host);
  return offset;
}

}  // namespace dist::watch
