// Right and wrong shifts in NCCL.
#include "tests/exercises/03_all_reduce/solutions/solutions.hpp"

#if DIST_CUDA_EMULATED
#include "common/check_nccl.hpp"
#include "tests/exercises/03_all_reduce/reference/nccl_ring_shift.hpp"

namespace dist::exercise {
namespace {

int right_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + 1) % nccl.size();
}

int left_of(const NcclCommunicator& nccl) {
  return (nccl.rank() + nccl.size() - 1) % nccl.size();
}

// Right, differently written: the receive first, which is all the same within a group.
void receives_first(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                    const Stream& stream) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

void no_group(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
              const Stream& stream) {
  NCCL_CHECK(nccl, ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(),
                            stream.get()));
  NCCL_CHECK(nccl, ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(),
                            stream.get()));
}

void a_group_each(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
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

void to_the_left(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                 const Stream& stream) {
  send_recv_nccl(nccl, out, left_of(nccl), in, right_of(nccl), stream);
}

void waits_before(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                  const Stream& stream) {
  stream.synchronize();
  nccl_ring_shift(nccl, out, in, stream);
}

void waits_after(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                 const Stream& stream) {
  nccl_ring_shift(nccl, out, in, stream);
  nccl.synchronize(stream);
}

void on_the_default_stream(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                           const Stream&) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl,
             ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl,
             ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(), nullptr));
  NCCL_CHECK(nccl, ncclGroupEnd());
}

void on_a_stream_of_its_own(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                            const Stream& stream) {
  const Stream own(stream.device());
  nccl_ring_shift(nccl, out, in, own);
  stream.wait(own.record_event());
}

void through_out(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
                 const Stream& stream) {
  nccl_ring_shift(nccl, out, out, stream);
  copy(stream, in, out);
}

void unchecked(NcclCommunicator& nccl, const Tensor& out, const Tensor& in,
               const Stream& stream) {
  ncclGroupStart();
  ncclSend(out.data(), out.numel(), ncclFloat, right_of(nccl), nccl.get(), stream.get());
  ncclRecv(in.data(), in.numel(), ncclFloat, left_of(nccl), nccl.get(), stream.get());
  ncclGroupEnd();
}

}  // namespace

std::vector<Solution> nccl_solutions() {
  const auto of = [](const char* name, const NcclShift& solution) {
    return Solution{"nccl_ring_shift", name, checks_of_nccl_ring_shift(solution)};
  };
  return {
      of("reference", nccl_ring_shift),
      of("receives-first", receives_first),
      of("no-group", no_group),
      of("a-group-each", a_group_each),
      of("to-the-left", to_the_left),
      of("waits-before", waits_before),
      of("waits-after", waits_after),
      of("default-stream", on_the_default_stream),
      of("own-stream", on_a_stream_of_its_own),
      of("through-out", through_out),
      of("unchecked", unchecked),
  };
}

}  // namespace dist::exercise
#else
namespace dist::exercise {

std::vector<Solution> nccl_solutions() {
  return {};
}

}  // namespace dist::exercise
#endif
