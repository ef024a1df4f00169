// NCCL's all-reduce: one call, which chooses an algorithm and runs it on the GPUs.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "03_all_reduce/reduce_op.hpp"
#include "common/tensor.hpp"

#include <span>

namespace dist {

// Replaces `tensor` by its reduction over all ranks, and `numbers` by their means. Called on
// all ranks with the same lengths and op. Both are one piece of work, which is queued on
// `stream`, behind the work that is already there.
void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream, std::span<double> numbers = {});

// The two halves, in place: reduce_scatter_nccl leaves the reduction of chunk r (chunk_range)
// on rank r, and all_gather_nccl copies chunk r of rank r to all ranks.
void reduce_scatter_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                         const Stream& stream, std::span<double> numbers = {});
void all_gather_nccl(NcclCommunicator& nccl, const Tensor& tensor, const Stream& stream);

}  // namespace dist
