// Solutions to lesson 3's exercise with NCCL, which is in the emulated build only.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/nccl_send_recv.hpp"

namespace dist::exercise {

// == nccl_ring_shift/reference
// Lesson 1's send and receive, in one group.
inline void nccl_ring_shift_reference(NcclCommunicator& nccl, const Tensor& out,
                                      const Tensor& in, const Stream& stream) {
  const int right = (nccl.rank() + 1) % nccl.size();
  const int left = (nccl.rank() + nccl.size() - 1) % nccl.size();
  send_recv_nccl(nccl, out, right, in, left, stream);
}

// == helpers
inline void send_right(NcclCommunicator& nccl, const Tensor& out, cudaStream_t stream) {
  const int right = (nccl.rank() + 1) % nccl.size();
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right, nccl.get(), stream));
}

inline void recv_left(NcclCommunicator& nccl, const Tensor& in, cudaStream_t stream) {
  const int left = (nccl.rank() + nccl.size() - 1) % nccl.size();
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left, nccl.get(), stream));
}

}  // namespace dist::exercise
