// MPI's collectives, one table row each: the call, its root, the size of one rank's share in
// bytes, the parameters with their types, and the parameters without. MPI matches collectives
// by the order of the calls on a communicator, so the watch numbers them: "MPI_Allreduce #7".
#include "tools/watch/wrap.hpp"

using namespace dist::watch;

// The size of one rank's share, or 0 with MPI_IN_PLACE, where MPI ignores the type.
static std::uint64_t share(const void* data, int count, MPI_Datatype type) {
  return data == MPI_IN_PLACE ? 0 : bytes_of_message(count, type);
}

// clang-format off
#define BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                     \
  DIST_CALL(MPI_##NAME, PARAMETERS, MPI_STATUS_IGNORE,                                         \
            (start_collective(call, comm, BYTES, ROOT)),                                       \
            PMPI_##NAME ARGUMENTS)

// The non-blocking form has the same parameters and a request.
#define NON_BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                 \
  DIST_START(MPI_##NAME, (DIST_UNPACK PARAMETERS, MPI_Request* request),                       \
             start_collective(call, comm, BYTES, ROOT),                                        \
             PMPI_##NAME(DIST_UNPACK ARGUMENTS, request))

#define BOTH(NAME, I_NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                 \
  BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                           \
  NON_BLOCKING(I_NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)

// What several calls have in common. n counts the elements of type t.
#define IN const void* in, int in_n, MPI_Datatype in_t
#define INS const void* in, const int* in_n, const int* begins, MPI_Datatype in_t
#define OUT void* out, int out_n, MPI_Datatype out_t
#define OUTS void* out, const int* out_n, const int* begins, MPI_Datatype out_t
#define REDUCED const void* in, void* out, int n, MPI_Datatype t, MPI_Op op

extern "C" {

BOTH(Barrier, Ibarrier, kNoRoot, 0, (MPI_Comm comm), (comm))
BOTH(Bcast, Ibcast, root, bytes_of_message(n, t),
     (void* data, int n, MPI_Datatype t, int root, MPI_Comm comm), (data, n, t, root, comm))
BOTH(Gather, Igather, root, share(in, in_n, in_t),
     (IN, OUT, int root, MPI_Comm comm), (in, in_n, in_t, out, out_n, out_t, root, comm))
BLOCKING(Gatherv, root, share(in, in_n, in_t),
         (IN, OUTS, int root, MPI_Comm comm),
         (in, in_n, in_t, out, out_n, begins, out_t, root, comm))
BOTH(Scatter, Iscatter, root, share(out, out_n, out_t),
     (IN, OUT, int root, MPI_Comm comm), (in, in_n, in_t, out, out_n, out_t, root, comm))
BLOCKING(Scatterv, root, share(out, out_n, out_t),
         (INS, OUT, int root, MPI_Comm comm),
         (in, in_n, begins, in_t, out, out_n, out_t, root, comm))
BOTH(Allgather, Iallgather, kNoRoot, bytes_of_message(out_n, out_t),
     (IN, OUT, MPI_Comm comm), (in, in_n, in_t, out, out_n, out_t, comm))
BOTH(Allgatherv, Iallgatherv, kNoRoot, share(in, in_n, in_t),
     (IN, OUTS, MPI_Comm comm), (in, in_n, in_t, out, out_n, begins, out_t, comm))
BLOCKING(Alltoall, kNoRoot, bytes_of_message(out_n, out_t),
         (IN, OUT, MPI_Comm comm), (in, in_n, in_t, out, out_n, out_t, comm))
BOTH(Reduce, Ireduce, root, bytes_of_message(n, t),
     (REDUCED, int root, MPI_Comm comm), (in, out, n, t, op, root, comm))
BOTH(Allreduce, Iallreduce, kNoRoot, bytes_of_message(n, t),
     (REDUCED, MPI_Comm comm), (in, out, n, t, op, comm))
BLOCKING(Reduce_scatter, kNoRoot, 0,
         (const void* in, void* out, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),
         (in, out, n, t, op, comm))
BOTH(Reduce_scatter_block, Ireduce_scatter_block, kNoRoot, bytes_of_message(n, t),
     (REDUCED, MPI_Comm comm), (in, out, n, t, op, comm))
BLOCKING(Scan, kNoRoot, bytes_of_message(n, t),
         (REDUCED, MPI_Comm comm), (in, out, n, t, op, comm))
BLOCKING(Exscan, kNoRoot, bytes_of_message(n, t),
         (REDUCED, MPI_Comm comm), (in, out, n, t, op, comm))

}  // extern "C"
// clang-format on

#undef IN
#undef INS
#undef OUT
#undef OUTS
#undef REDUCED
