// MPI's collectives. MPI matches them by the order of the calls on a communicator, so the watch
// numbers them: "MPI_Allreduce #7". In the names below, n counts the elements of type t.
#include "tools/watch/observe/wrap.hpp"

using namespace dist::watch;

// One rank's share, which MPI ignores with MPI_IN_PLACE.
static int share(const void* data, int count) {
  return data == MPI_IN_PLACE ? 0 : count;
}

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  return observed(Call::MPI_Barrier, Collective{comm}, [=] { return PMPI_Barrier(comm); });
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return observed_start(Call::MPI_Ibarrier, Collective{comm}, request,
                        [=] { return PMPI_Ibarrier(comm, request); });
}

int MPI_Bcast(void* data, int n, MPI_Datatype t, int root, MPI_Comm comm) {
  return observed(Call::MPI_Bcast, Collective{comm, root, n, t},
                  [=] { return PMPI_Bcast(data, n, t, root, comm); });
}
int MPI_Ibcast(void* data, int n, MPI_Datatype t, int root, MPI_Comm comm,
               MPI_Request* request) {
  return observed_start(Call::MPI_Ibcast, Collective{comm, root, n, t}, request,
                        [=] { return PMPI_Ibcast(data, n, t, root, comm, request); });
}

int MPI_Gather(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
               MPI_Datatype out_t, int root, MPI_Comm comm) {
  return observed(Call::MPI_Gather, Collective{comm, root, share(in, in_n), in_t},
                  [=] { return PMPI_Gather(in, in_n, in_t, out, out_n, out_t, root, comm); });
}
int MPI_Igather(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                MPI_Datatype out_t, int root, MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Igather, Collective{comm, root, share(in, in_n), in_t}, request,
      [=] { return PMPI_Igather(in, in_n, in_t, out, out_n, out_t, root, comm, request); });
}

int MPI_Gatherv(const void* in, int in_n, MPI_Datatype in_t, void* out, const int* out_n,
                const int* begins, MPI_Datatype out_t, int root, MPI_Comm comm) {
  return observed(Call::MPI_Gatherv, Collective{comm, root, share(in, in_n), in_t}, [=] {
    return PMPI_Gatherv(in, in_n, in_t, out, out_n, begins, out_t, root, comm);
  });
}

int MPI_Scatter(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                MPI_Datatype out_t, int root, MPI_Comm comm) {
  return observed(Call::MPI_Scatter, Collective{comm, root, share(out, out_n), out_t},
                  [=] { return PMPI_Scatter(in, in_n, in_t, out, out_n, out_t, root, comm); });
}
int MPI_Iscatter(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                 MPI_Datatype out_t, int root, MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Iscatter, Collective{comm, root, share(out, out_n), out_t}, request,
      [=] { return PMPI_Iscatter(in, in_n, in_t, out, out_n, out_t, root, comm, request); });
}

int MPI_Scatterv(const void* in, const int* in_n, const int* begins, MPI_Datatype in_t,
                 void* out, int out_n, MPI_Datatype out_t, int root, MPI_Comm comm) {
  return observed(Call::MPI_Scatterv, Collective{comm, root, share(out, out_n), out_t}, [=] {
    return PMPI_Scatterv(in, in_n, begins, in_t, out, out_n, out_t, root, comm);
  });
}

int MPI_Allgather(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                  MPI_Datatype out_t, MPI_Comm comm) {
  return observed(Call::MPI_Allgather, Collective{comm, kNoRoot, out_n, out_t},
                  [=] { return PMPI_Allgather(in, in_n, in_t, out, out_n, out_t, comm); });
}
int MPI_Iallgather(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                   MPI_Datatype out_t, MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Iallgather, Collective{comm, kNoRoot, out_n, out_t}, request,
      [=] { return PMPI_Iallgather(in, in_n, in_t, out, out_n, out_t, comm, request); });
}

int MPI_Allgatherv(const void* in, int in_n, MPI_Datatype in_t, void* out, const int* out_n,
                   const int* begins, MPI_Datatype out_t, MPI_Comm comm) {
  return observed(Call::MPI_Allgatherv, Collective{comm, kNoRoot, share(in, in_n), in_t}, [=] {
    return PMPI_Allgatherv(in, in_n, in_t, out, out_n, begins, out_t, comm);
  });
}
int MPI_Iallgatherv(const void* in, int in_n, MPI_Datatype in_t, void* out, const int* out_n,
                    const int* begins, MPI_Datatype out_t, MPI_Comm comm,
                    MPI_Request* request) {
  return observed_start(
      Call::MPI_Iallgatherv, Collective{comm, kNoRoot, share(in, in_n), in_t}, request, [=] {
        return PMPI_Iallgatherv(in, in_n, in_t, out, out_n, begins, out_t, comm, request);
      });
}

int MPI_Alltoall(const void* in, int in_n, MPI_Datatype in_t, void* out, int out_n,
                 MPI_Datatype out_t, MPI_Comm comm) {
  return observed(Call::MPI_Alltoall, Collective{comm, kNoRoot, out_n, out_t},
                  [=] { return PMPI_Alltoall(in, in_n, in_t, out, out_n, out_t, comm); });
}

int MPI_Reduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, int root,
               MPI_Comm comm) {
  return observed(Call::MPI_Reduce, Collective{comm, root, n, t},
                  [=] { return PMPI_Reduce(in, out, n, t, op, root, comm); });
}
int MPI_Ireduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* request) {
  return observed_start(Call::MPI_Ireduce, Collective{comm, root, n, t}, request,
                        [=] { return PMPI_Ireduce(in, out, n, t, op, root, comm, request); });
}

int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  return observed(Call::MPI_Allreduce, Collective{comm, kNoRoot, n, t},
                  [=] { return PMPI_Allreduce(in, out, n, t, op, comm); });
}
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  return observed_start(Call::MPI_Iallreduce, Collective{comm, kNoRoot, n, t}, request,
                        [=] { return PMPI_Iallreduce(in, out, n, t, op, comm, request); });
}

int MPI_Reduce_scatter(const void* in, void* out, const int* n, MPI_Datatype t, MPI_Op op,
                       MPI_Comm comm) {
  return observed(Call::MPI_Reduce_scatter, Collective{comm},
                  [=] { return PMPI_Reduce_scatter(in, out, n, t, op, comm); });
}

int MPI_Reduce_scatter_block(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op,
                             MPI_Comm comm) {
  return observed(Call::MPI_Reduce_scatter_block, Collective{comm, kNoRoot, n, t},
                  [=] { return PMPI_Reduce_scatter_block(in, out, n, t, op, comm); });
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  return observed_start(
      Call::MPI_Ireduce_scatter_block, Collective{comm, kNoRoot, n, t}, request,
      [=] { return PMPI_Ireduce_scatter_block(in, out, n, t, op, comm, request); });
}

int MPI_Scan(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  return observed(Call::MPI_Scan, Collective{comm, kNoRoot, n, t},
                  [=] { return PMPI_Scan(in, out, n, t, op, comm); });
}

int MPI_Exscan(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  return observed(Call::MPI_Exscan, Collective{comm, kNoRoot, n, t},
                  [=] { return PMPI_Exscan(in, out, n, t, op, comm); });
}

}  // extern "C"
