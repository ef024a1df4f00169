// MPI's collectives, observed and forwarded, one table row each: the call, its root, the size
// of one rank's share in bytes, the parameters with their types, and the parameters without.
// MPI matches collectives by the order of the calls on a communicator, so the watch numbers
// them: "MPI_Allreduce #7".
#include "tools/watch/call_hooks.hpp"

using namespace dist::watch;

namespace {

// The size of one rank's share, or 0 with MPI_IN_PLACE, where MPI ignores the type.
std::uint64_t share(const void* data, int count, MPI_Datatype type) {
  return data == MPI_IN_PLACE ? 0 : bytes_of_message(count, type);
}

template <class Bytes, class Forward>
int observed_start(Call call, MPI_Comm comm, int root, const MPI_Request* request, Bytes bytes,
                   Forward forward) {
  if (!observing()) return forward();
  const Operation collective = start_collective(call, comm, bytes(), root);
  const Observation observation(call, collective);
  const int result = forward();
  if (result == MPI_SUCCESS) keep_request(*request, collective);
  return result;
}

}  // namespace

// clang-format off
#define UNPACK(...) __VA_ARGS__

#define BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                        \
  int MPI_##NAME PARAMETERS {                                                                     \
    return observed_collective(Call::MPI_##NAME, comm, ROOT,                                      \
                               [=]() -> std::uint64_t { return BYTES; },                          \
                               [=] { return PMPI_##NAME ARGUMENTS; });                            \
  }

// The non-blocking form has the same parameters and a request.
#define NON_BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                    \
  int MPI_##NAME(UNPACK PARAMETERS, MPI_Request* request) {                                       \
    return observed_start(Call::MPI_##NAME, comm, ROOT, request,                                  \
                          [=]() -> std::uint64_t { return BYTES; },                               \
                          [=] { return PMPI_##NAME(UNPACK ARGUMENTS, request); });                \
  }

#define BOTH(NAME, I_NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                    \
  BLOCKING(NAME, ROOT, BYTES, PARAMETERS, ARGUMENTS)                                              \
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
BOTH(Reduce_scatter, Ireduce_scatter, kNoRoot, 0,
     (const void* in, void* out, const int* n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),
     (in, out, n, t, op, comm))
BLOCKING(Reduce_scatter_block, kNoRoot, bytes_of_message(n, t),
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
