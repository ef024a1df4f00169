#include "02_broadcast/nccl_broadcast.hpp"

#include "02_broadcast/binomial_tree.hpp"
#include "common/buffer.hpp"

#include <utility>

namespace dist {

// [9] With a broadcast available, a rendezvous takes no more than this function.
NcclCommunicator connect_nccl(const Communicator& comm, Device device) {
  NcclId id{};
  if (comm.rank() == 0) id = make_nccl_id();
  broadcast_tree<char>(comm, id, 0);
  return {id, comm.rank(), comm.size(), device};
}

Tensor allocate_nccl(NcclCommunicator& nccl, Shape shape) {
  const std::size_t bytes = bytes_of(numel(shape), sizeof(float));
  const auto memory = nccl.allocate(bytes + 1);  // never zero bytes
  return {memory, static_cast<float*>(memory.get()), std::move(shape), nccl.device()};
}

#if DIST_WITH_NCCL
void broadcast_nccl(NcclCommunicator& nccl, const Tensor& tensor, int root,
                    const Stream& stream) {
  NCCL_CHECK(nccl, ncclBroadcast(tensor.data(), tensor.data(), tensor.numel(), ncclFloat, root,
                                 nccl.get(), stream.get()));
}
#else  // there is no NcclCommunicator, so nobody calls this
void broadcast_nccl(NcclCommunicator&, const Tensor&, int, const Stream&) {}
#endif

}  // namespace dist
