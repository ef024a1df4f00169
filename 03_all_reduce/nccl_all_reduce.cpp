#include "03_all_reduce/nccl_all_reduce.hpp"

#include "common/check.hpp"
#include "common/check_nccl.hpp"

namespace dist {

#if DIST_WITH_NCCL
void all_reduce_nccl(const NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream) {
  const ncclRedOp_t nccl_op =
      op == ReduceOp::sum ? ncclSum : (op == ReduceOp::avg ? ncclAvg : ncclMax);
  NCCL_CHECK(ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat, nccl_op,
                           nccl.get(), stream.get()));
}
#else
void all_reduce_nccl(const NcclCommunicator&, const Tensor&, ReduceOp, const Stream&) {
  throw Error("built without NCCL");
}
#endif

}  // namespace dist
