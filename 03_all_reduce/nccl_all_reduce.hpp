// The same in NCCL: one call, which chooses and runs such algorithms on the GPUs.
#pragma once

#include "03_all_reduce/reduce_op.hpp"
#include "common/nccl_communicator.hpp"
#include "common/tensor.hpp"

namespace dist {

// `tensor` becomes the reduction over all ranks, in place. Called on all ranks with the same
// length and op; queued on `stream`, whose work so far NCCL waits for.
void all_reduce_nccl(const NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream);

}  // namespace dist
