// Right and wrong shifts in NCCL.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "tests/exercises/03_all_reduce/reference/nccl_ring_shift.hpp"

namespace dist::exercise {

inline int right_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + 1) % nccl.size();
}

inline int left_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + nccl.size() - 1) % nccl.size();
}

// Right: calls the receive first. Within a group, the order does not matter.
inline void receives_first(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                           const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

inline void no_group(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                     const Stream& stream) {
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
}

inline void a_group_each(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                         const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

inline void to_the_left(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                        const Stream& stream) {
  send_recv_nccl(nccl, out, left_of(nccl), in, right_of(nccl), stream);
}

inline void waits_before(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                         const Stream& stream) {
  stream.synchronize();
  nccl_ring_shift(nccl, out, in, stream);
}

inline void waits_after(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                        const Stream& stream) {
  nccl_ring_shift(nccl, out, in, stream);
  nccl.synchronize(stream);
}

inline void default_stream(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                           const Stream&) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl,
             ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

inline void own_stream(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                       const Stream& stream) {
  const Stream own(stream.device());
  nccl_ring_shift(nccl, out, in, own);
  stream.wait(own.record_event());
}

inline void through_out(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                        const Stream& stream) {
  nccl_ring_shift(nccl, out, out, stream);
  copy(stream, in, out);
}

}  // namespace dist::exercise
