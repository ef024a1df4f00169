// The calls that the watch sees. They are numbered because processes share records of them, and
// a pointer to a name is meaningless in a different process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dist::watch {

// clang-format off
#define DIST_WATCHED_CALLS(CALL)                                                                  \
  CALL(none) CALL(wait_scope) CALL(call_scope) CALL(MPI_Init)                                   \
  CALL(MPI_Send) CALL(MPI_Ssend) CALL(MPI_Bsend) CALL(MPI_Rsend) CALL(MPI_Recv)                 \
  CALL(MPI_Isend) CALL(MPI_Issend) CALL(MPI_Ibsend) CALL(MPI_Irecv)                             \
  CALL(MPI_Sendrecv) CALL(MPI_Sendrecv_replace)                                                 \
  CALL(MPI_Probe) CALL(MPI_Iprobe) CALL(MPI_Mprobe) CALL(MPI_Improbe) CALL(MPI_Mrecv)           \
  CALL(MPI_Wait) CALL(MPI_Waitall) CALL(MPI_Waitany)                                            \
  CALL(MPI_Test) CALL(MPI_Testall) CALL(MPI_Testany)                                            \
  CALL(MPI_Barrier) CALL(MPI_Bcast) CALL(MPI_Gather) CALL(MPI_Gatherv) CALL(MPI_Scatter)        \
  CALL(MPI_Scatterv) CALL(MPI_Allgather) CALL(MPI_Allgatherv) CALL(MPI_Alltoall)                \
  CALL(MPI_Reduce) CALL(MPI_Allreduce) CALL(MPI_Reduce_scatter)                                 \
  CALL(MPI_Reduce_scatter_block) CALL(MPI_Scan) CALL(MPI_Exscan)                                \
  CALL(MPI_Ibarrier) CALL(MPI_Ibcast) CALL(MPI_Igather) CALL(MPI_Iscatter)                      \
  CALL(MPI_Iallgather) CALL(MPI_Iallgatherv) CALL(MPI_Ireduce) CALL(MPI_Iallreduce)             \
  CALL(MPI_Ireduce_scatter)                                                                     \
  CALL(MPI_Comm_dup) CALL(MPI_Comm_split) CALL(MPI_Comm_split_type) CALL(MPI_Comm_create)       \
  CALL(MPI_Win_create) CALL(MPI_Win_allocate) CALL(MPI_Win_allocate_shared) CALL(MPI_Win_fence) \
  CALL(MPI_Win_free) CALL(MPI_Finalize)
// clang-format on

enum class Call : std::uint16_t {
#define DIST_ENUMERATOR(name) name,
  DIST_WATCHED_CALLS(DIST_ENUMERATOR)
#undef DIST_ENUMERATOR
};

inline const char* name_of(Call call) {
  static constexpr std::array kNames{
#define DIST_NAME(name) #name,
      DIST_WATCHED_CALLS(DIST_NAME)
#undef DIST_NAME
  };
  return kNames.at(static_cast<std::size_t>(call));
}

}  // namespace dist::watch
