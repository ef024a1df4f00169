// The same in NCCL: one call, which chooses and runs such algorithms on the GPUs.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "03_all_reduce/reduce_op.hpp"
#include "common/tensor.hpp"

#include <span>

namespace dist {

// `tensor` becomes the reduction over all ranks, in place. Called on all ranks with the same
// length and op; queued on `stream`, whose work so far NCCL waits for.
void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream);

// The mean over all ranks of a few numbers in double precision, in place.
void mean_nccl(NcclCommunicator& nccl, std::span<double> numbers, const Stream& stream);

// A tensor in registered memory (NcclCommunicator::allocate): peers reach it without a copy
// where the hardware can. Called on one rank; contents undefined.
Tensor allocate_nccl(NcclCommunicator& nccl, Shape shape);

}  // namespace dist
