#include "02_broadcast/nccl_broadcast.hpp"

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check.hpp"

namespace dist {

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
