#include "02_broadcast/nccl_broadcast.hpp"

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/binomial_tree.hpp"

namespace dist {

// [9] With a broadcast available, a rendezvous takes no more than this function.
NcclCommunicator connect_nccl(const Communicator& comm, Device device) {
  NcclId id{};
  if (comm.rank() == 0) id = make_nccl_id();
  broadcast_tree<char>(comm, id, 0);
  return {id, comm.rank(), comm.size(), device};
}

#if DIST_WITH_NCCL
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream) {
  NCCL_CHECK(nccl, ncclBroadcast(tensor.data(), tensor.data(), tensor.numel(), ncclFloat, root,
                                 nccl.get(), stream.get()));
}
#else
void broadcast_nccl(NcclCommunicator&, const Tensor&, int, const Stream&) {
  throw Error("built without NCCL");
}
#endif

}  // namespace dist
