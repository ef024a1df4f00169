// send_recv with NCCL: GPU-to-GPU messages that bypass host memory.
// Look at: the group, without which the ranks would deadlock.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/tensor.hpp"

namespace dist {

// Called on all ranks of `comm`, each with a GPU of its own. Rank 0 makes NCCL's unique id and
// sends it to the other ranks one by one. Lesson 2 broadcasts the id instead.
inline NcclCommunicator connect_nccl_by_messages(const Communicator& comm, Device device) {
  NcclId id{};
  if (comm.rank() == 0) {
    id = make_nccl_id();
    for (int rank = 1; rank < comm.size(); ++rank) send<char>(comm, id, rank);
  } else {
    recv<char>(comm, id, 0);
  }
  return {id, comm.rank(), comm.size(), device};
}

#if DIST_WITH_NCCL
// Sends `out` to `dest`, receives `in` from `source`. Called on all ranks; queued on `stream`.
inline void send_recv_nccl(NcclCommunicator& nccl, const Tensor& out, int dest,
                           const Tensor& in, int source, const Stream& stream) {
  // The group turns the two calls into one operation. Without it, the stream would run them in
  // order, and every rank's send would wait for a receive that is queued behind another send.
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl,
             ncclSend(out.data(), out.numel(), ncclFloat, dest, nccl.get(), stream.get()));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), in.numel(), ncclFloat, source, nccl.get(), stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}
#else  // there is no NcclCommunicator, so nobody calls this
inline void send_recv_nccl(NcclCommunicator&, const Tensor&, int, const Tensor&, int,
                           const Stream&) {}
#endif

}  // namespace dist
