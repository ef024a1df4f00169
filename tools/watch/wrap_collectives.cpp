// MPI's collectives, observed and forwarded. MPI matches them by the order of the calls on a
// communicator, so the watch numbers the calls: "MPI_Allreduce #7".
#include "tools/watch/observation.hpp"

using namespace dist::watch;

namespace {

// The size of one rank's share, or 0 with MPI_IN_PLACE, where MPI ignores the type.
std::uint64_t share(const void* data, int count, MPI_Datatype type) {
  return data == MPI_IN_PLACE ? 0 : bytes_of_message(count, type);
}

// Calls `size` only if a mode is switched on.
template <class Size, class Forward>
int observed(Call call, MPI_Comm comm, int root, Size size, Forward forward) {
  if (!observing()) return forward();
  const Operation collective = start_collective(call, comm, size(), root);
  const Observation observation(call, collective);
  return forward();
}

template <class Size, class Forward>
int observed_start(Call call, MPI_Comm comm, int root, const MPI_Request* request, Size size,
                   Forward forward) {
  if (!observing()) return forward();
  const Operation collective = start_collective(call, comm, size(), root);
  const Observation observation(call, collective);
  const int result = forward();
  if (result == MPI_SUCCESS) keep_request(*request, collective);
  return result;
}

}  // namespace

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  return observed(
      Call::MPI_Barrier, comm, kNoRoot, [=] { return std::uint64_t{0}; },
      [=] { return PMPI_Barrier(comm); });
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return observed(
      Call::MPI_Bcast, comm, root, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Bcast(data, count, type, root, comm); });
}

int MPI_Gather(const void* from, int from_count, MPI_Datatype from_type, void* to, int to_count,
               MPI_Datatype to_type, int root, MPI_Comm comm) {
  return observed(
      Call::MPI_Gather, comm, root, [=] { return share(from, from_count, from_type); },
      [=] {
        return PMPI_Gather(from, from_count, from_type, to, to_count, to_type, root, comm);
      });
}

int MPI_Gatherv(const void* from, int from_count, MPI_Datatype from_type, void* to,
                const int* to_counts, const int* begins, MPI_Datatype to_type, int root,
                MPI_Comm comm) {
  return observed(
      Call::MPI_Gatherv, comm, root, [=] { return share(from, from_count, from_type); },
      [=] {
        return PMPI_Gatherv(from, from_count, from_type, to, to_counts, begins, to_type, root,
                            comm);
      });
}

int MPI_Scatter(const void* from, int from_count, MPI_Datatype from_type, void* to,
                int to_count, MPI_Datatype to_type, int root, MPI_Comm comm) {
  return observed(
      Call::MPI_Scatter, comm, root, [=] { return share(to, to_count, to_type); },
      [=] {
        return PMPI_Scatter(from, from_count, from_type, to, to_count, to_type, root, comm);
      });
}

int MPI_Scatterv(const void* from, const int* from_counts, const int* begins,
                 MPI_Datatype from_type, void* to, int to_count, MPI_Datatype to_type, int root,
                 MPI_Comm comm) {
  return observed(
      Call::MPI_Scatterv, comm, root, [=] { return share(to, to_count, to_type); },
      [=] {
        return PMPI_Scatterv(from, from_counts, begins, from_type, to, to_count, to_type, root,
                             comm);
      });
}

int MPI_Allgather(const void* from, int from_count, MPI_Datatype from_type, void* to,
                  int to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return observed(
      Call::MPI_Allgather, comm, kNoRoot, [=] { return bytes_of_message(to_count, to_type); },
      [=] { return PMPI_Allgather(from, from_count, from_type, to, to_count, to_type, comm); });
}

int MPI_Allgatherv(const void* from, int from_count, MPI_Datatype from_type, void* to,
                   const int* to_counts, const int* begins, MPI_Datatype to_type,
                   MPI_Comm comm) {
  return observed(
      Call::MPI_Allgatherv, comm, kNoRoot, [=] { return share(from, from_count, from_type); },
      [=] {
        return PMPI_Allgatherv(from, from_count, from_type, to, to_counts, begins, to_type,
                               comm);
      });
}

int MPI_Alltoall(const void* from, int from_count, MPI_Datatype from_type, void* to,
                 int to_count, MPI_Datatype to_type, MPI_Comm comm) {
  return observed(
      Call::MPI_Alltoall, comm, kNoRoot, [=] { return bytes_of_message(to_count, to_type); },
      [=] { return PMPI_Alltoall(from, from_count, from_type, to, to_count, to_type, comm); });
}

int MPI_Reduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  return observed(
      Call::MPI_Reduce, comm, root, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Reduce(from, to, count, type, op, root, comm); });
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return observed(
      Call::MPI_Allreduce, comm, kNoRoot, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Allreduce(from, to, count, type, op, comm); });
}

int MPI_Reduce_scatter(const void* from, void* to, const int* counts, MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  return observed(
      Call::MPI_Reduce_scatter, comm, kNoRoot, [=] { return std::uint64_t{0}; },
      [=] { return PMPI_Reduce_scatter(from, to, counts, type, op, comm); });
}

int MPI_Reduce_scatter_block(const void* from, void* to, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  return observed(
      Call::MPI_Reduce_scatter_block, comm, kNoRoot,
      [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Reduce_scatter_block(from, to, count, type, op, comm); });
}

int MPI_Scan(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm) {
  return observed(
      Call::MPI_Scan, comm, kNoRoot, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Scan(from, to, count, type, op, comm); });
}

int MPI_Exscan(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm comm) {
  return observed(
      Call::MPI_Exscan, comm, kNoRoot, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Exscan(from, to, count, type, op, comm); });
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Ibarrier, comm, kNoRoot, request, [=] { return std::uint64_t{0}; },
      [=] { return PMPI_Ibarrier(comm, request); });
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  return observed_start(
      Call::MPI_Ibcast, comm, root, request, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Ibcast(data, count, type, root, comm, request); });
}

int MPI_Igather(const void* from, int from_count, MPI_Datatype from_type, void* to,
                int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                MPI_Request* request) {
  return observed_start(
      Call::MPI_Igather, comm, root, request,
      [=] { return share(from, from_count, from_type); },
      [=] {
        return PMPI_Igather(from, from_count, from_type, to, to_count, to_type, root, comm,
                            request);
      });
}

int MPI_Iscatter(const void* from, int from_count, MPI_Datatype from_type, void* to,
                 int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request* request) {
  return observed_start(
      Call::MPI_Iscatter, comm, root, request, [=] { return share(to, to_count, to_type); },
      [=] {
        return PMPI_Iscatter(from, from_count, from_type, to, to_count, to_type, root, comm,
                             request);
      });
}

int MPI_Iallgather(const void* from, int from_count, MPI_Datatype from_type, void* to,
                   int to_count, MPI_Datatype to_type, MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Iallgather, comm, kNoRoot, request,
      [=] { return bytes_of_message(to_count, to_type); },
      [=] {
        return PMPI_Iallgather(from, from_count, from_type, to, to_count, to_type, comm,
                               request);
      });
}

int MPI_Ireduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Ireduce, comm, root, request, [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Ireduce(from, to, count, type, op, root, comm, request); });
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Iallreduce, comm, kNoRoot, request,
      [=] { return bytes_of_message(count, type); },
      [=] { return PMPI_Iallreduce(from, to, count, type, op, comm, request); });
}

int MPI_Ireduce_scatter(const void* from, void* to, const int* counts, MPI_Datatype type,
                        MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Ireduce_scatter, comm, kNoRoot, request, [=] { return std::uint64_t{0}; },
      [=] { return PMPI_Ireduce_scatter(from, to, counts, type, op, comm, request); });
}

int MPI_Iallgatherv(const void* from, int from_count, MPI_Datatype from_type, void* to,
                    const int* to_counts, const int* begins, MPI_Datatype to_type,
                    MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Iallgatherv, comm, kNoRoot, request,
      [=] { return share(from, from_count, from_type); },
      [=] {
        return PMPI_Iallgatherv(from, from_count, from_type, to, to_counts, begins, to_type,
                                comm, request);
      });
}

}  // extern "C"
