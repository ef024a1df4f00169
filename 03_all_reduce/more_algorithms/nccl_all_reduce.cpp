// Look at: how little code remains when a library does the work of lesson 3.
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"

#include "02_broadcast/chunks.hpp"

namespace dist {

#if DIST_WITH_NCCL
// For a single rank, whose sum is the mean, NCCL would launch a kernel that divides by 1.
static ncclRedOp_t name_of(ReduceOp op, const NcclCommunicator& nccl) {
  if (op == ReduceOp::max) return ncclMax;
  return op == ReduceOp::avg && nccl.size() > 1 ? ncclAvg : ncclSum;
}

static void average_nccl(NcclCommunicator& nccl, std::span<double> numbers,
                         const Stream& stream) {
  if (numbers.empty()) return;
  NCCL_CHECK(nccl, ncclAllReduce(numbers.data(), numbers.data(), numbers.size(), ncclDouble,
                                 name_of(ReduceOp::avg, nccl), nccl.get(), stream.get()));
}

// NCCL's own halves need chunks of equal size.
static bool divides_equally(const NcclCommunicator& nccl, const Tensor& tensor) {
  return tensor.numel() % static_cast<std::size_t>(nccl.size()) == 0;
}

void all_reduce_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                     const Stream& stream, std::span<double> numbers) {
  NCCL_CHECK(nccl, ncclGroupStart());
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 name_of(op, nccl), nccl.get(), stream.get()));
  average_nccl(nccl, numbers, stream);
  NCCL_CHECK(nccl, ncclGroupEnd());
}

void reduce_scatter_nccl(NcclCommunicator& nccl, const Tensor& tensor, ReduceOp op,
                         const Stream& stream, std::span<double> numbers) {
  const auto chunk = [&](int rank) { return chunk_range(tensor.numel(), nccl.size(), rank); };
  NCCL_CHECK(nccl, ncclGroupStart());
  if (divides_equally(nccl, tensor)) {
    const ChunkRange mine = chunk(nccl.rank());
    NCCL_CHECK(nccl, ncclReduceScatter(tensor.data(), tensor.data() + mine.begin, mine.count,
                                       ncclFloat, name_of(op, nccl), nccl.get(), stream.get()));
  } else {
    for (int rank = 0; rank < nccl.size(); ++rank) {
      float* const data = tensor.data() + chunk(rank).begin;
      NCCL_CHECK(nccl, ncclReduce(data, data, chunk(rank).count, ncclFloat, name_of(op, nccl),
                                  rank, nccl.get(), stream.get()));
    }
  }
  average_nccl(nccl, numbers, stream);
  NCCL_CHECK(nccl, ncclGroupEnd());
}

void all_gather_nccl(NcclCommunicator& nccl, const Tensor& tensor, const Stream& stream) {
  const auto chunk = [&](int rank) { return chunk_range(tensor.numel(), nccl.size(), rank); };
  NCCL_CHECK(nccl, ncclGroupStart());
  if (divides_equally(nccl, tensor)) {
    const ChunkRange mine = chunk(nccl.rank());
    NCCL_CHECK(nccl, ncclAllGather(tensor.data() + mine.begin, tensor.data(), mine.count,
                                   ncclFloat, nccl.get(), stream.get()));
  } else {
    for (int rank = 0; rank < nccl.size(); ++rank) {
      float* const data = tensor.data() + chunk(rank).begin;
      NCCL_CHECK(nccl, ncclBroadcast(data, data, chunk(rank).count, ncclFloat, rank, nccl.get(),
                                     stream.get()));
    }
  }
  NCCL_CHECK(nccl, ncclGroupEnd());
}
#else  // there is no NcclCommunicator, so nobody calls these
void all_reduce_nccl(NcclCommunicator&, const Tensor&, ReduceOp, const Stream&,
                     std::span<double>) {}
void reduce_scatter_nccl(NcclCommunicator&, const Tensor&, ReduceOp, const Stream&,
                         std::span<double>) {}
void all_gather_nccl(NcclCommunicator&, const Tensor&, const Stream&) {}
#endif

}  // namespace dist
