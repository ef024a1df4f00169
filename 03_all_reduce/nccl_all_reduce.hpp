// NCCL's all-reduce: one call, which chooses an algorithm and runs it on the GPUs.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "03_all_reduce/reduce_op.hpp"
#include "common/tensor.hpp"

#include <span>

namespace dist {

// Replaces `tensor` by its reduction over all ranks. Called on all ranks with the same length
// and op. The work is queued on `stream`, behind the work that is already there.
void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream);

// The same, and `numbers` are replaced by their means over all ranks. Both all-reduces are one
// piece of work.
void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     std::span<double> numbers, const Stream& stream);

// The two halves, in place: reduce_scatter_nccl leaves the reduction of chunk r (chunk_range)
// on rank r, and all_gather_nccl copies chunk r of rank r to all ranks. `numbers` may be empty.
void reduce_scatter_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                         std::span<double> numbers, const Stream& stream);
void all_gather_nccl(NcclCommunicator& nccl, const Tensor& tensor, const Stream& stream);

// Returns a tensor in registered memory (NcclCommunicator::allocate), which peers can access
// without a copy if the hardware allows. May be called on a single rank; the contents are
// undefined.
Tensor allocate_nccl(NcclCommunicator& nccl, Shape shape);

}  // namespace dist
