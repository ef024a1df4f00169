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
inline int right_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + 1) % nccl.size();
}

inline int left_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + nccl.size() - 1) % nccl.size();
}

// == nccl_ring_shift/receives-first
// Right: calls the receive first. Within a group, the order does not matter.
inline void nccl_ring_shift_receives_first(NcclCommunicator& nccl, const Tensor& out,
                                           const Tensor& in, const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

// == nccl_ring_shift/no-group
inline void nccl_ring_shift_no_group(NcclCommunicator& nccl, const Tensor& out,
                                     const Tensor& in, const Stream& stream) {
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
}

// == nccl_ring_shift/a-group-each
inline void nccl_ring_shift_a_group_each(NcclCommunicator& nccl, const Tensor& out,
                                         const Tensor& in, const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

// == nccl_ring_shift/default-stream
inline void nccl_ring_shift_default_stream(NcclCommunicator& nccl, const Tensor& out,
                                           const Tensor& in, const Stream&) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl,
             ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

}  // namespace dist::exercise
