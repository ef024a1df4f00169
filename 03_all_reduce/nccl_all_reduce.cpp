// Look at: how little code remains when a library does the work of lesson 3.
#include "03_all_reduce/nccl_all_reduce.hpp"

#include "01_send_recv/gpu/check_nccl.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"

#include <memory>
#include <string>
#include <utility>

namespace dist {

#if DIST_WITH_NCCL
void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream) {
  const ncclRedOp_t nccl_op =
      op == ReduceOp::sum ? ncclSum : (op == ReduceOp::avg ? ncclAvg : ncclMax);
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 nccl_op, nccl.get(), stream.get()));
}

void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     std::span<double> numbers, const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  all_reduce_nccl(nccl, tensor, op, stream);
  NCCL_CHECK(nccl, ncclAllReduce(numbers.data(), numbers.data(), numbers.size(), ncclDouble,
                                 ncclAvg, nccl.get(), stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}
#else
void all_reduce_nccl(NcclCommunicator&, const Tensor&, ReduceOp, const Stream&) {
  throw Error("built without NCCL");
}
void all_reduce_nccl(NcclCommunicator&, const Tensor&, ReduceOp, std::span<double>,
                     const Stream&) {
  throw Error("built without NCCL");
}
#endif

Tensor allocate_nccl(NcclCommunicator& nccl, Shape shape) {
  const std::size_t bytes = bytes_of(numel(shape), sizeof(float));
  const auto memory = nccl.allocate(bytes + 1);  // never zero bytes
  return {memory, static_cast<float*>(memory.get()), std::move(shape), nccl.device()};
}

}  // namespace dist
