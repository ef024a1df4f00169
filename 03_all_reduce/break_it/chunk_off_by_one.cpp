// Belief:  a test on a tensor of ones is enough: if every element is N, the ring is right.
// Predict: a ring's first message is chunk r instead of chunk r-1. Does a test with ones notice
//          the mistake? Does a test with numbers that show their origin?
// You see: ones PASS, tracer numbers FAIL in every element. In chunk 0, rank 1's share is
//          replaced by rank 1's share of chunk 1. Tracer numbers grow by 1 per element and a
//          chunk has 4 elements, so element 0 is too large by 4.
// Why:     before the first step every chunk holds one share, so with ones all chunks are
//          equal and a wrong chunk does no harm. Only data that differ in every position and
//          on every rank reveal the mistake.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/ring.hpp"
#include "common/program.hpp"

#include <mpi.h>

#include <vector>

namespace dist {

constexpr std::size_t kPerChunk = 4;

// The lesson's ring, written differently: the chunk that arrives is sent next.
static void broken_ring(const Communicator& comm, std::span<float> data) {
  std::vector<float> spare(kPerChunk);
  ChunkRange out = chunk_range(data.size(), comm.size(), comm.rank());  // wrong: not rank - 1
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange in = chunk_range(data.size(), comm.size(), comm.rank() - 2 - step);
    send_recv<float>(comm, window(data, out), comm.right(), spare, comm.left());
    accumulate<float>(ReduceOp::sum, window(data, in), spare);
    out = in;
  }
  ring_all_gather(comm, data);
}

// Reduces `data` and returns how many elements are not expected(index), over all ranks.
template <class Expected>
static std::size_t wrong_after_ring(const Communicator& comm, std::span<float> data,
                                    Expected expected) {
  broken_ring(comm, data);
  std::uint64_t wrong = count_wrong(data, expected);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  return wrong;
}

bool break_chunk_off_by_one(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> data(kPerChunk * static_cast<std::size_t>(comm.size()), 1.0F);
  const std::size_t wrong_ones =
      wrong_after_ring(comm, data, [&](std::size_t) { return comm.size(); });

  fill_tracer_numbers(data, comm.rank());  // element i of rank r is 1000 r + i
  const auto sum = [&](std::size_t i) { return tracer_sum(comm.size(), i); };
  const std::size_t wrong_tracers = wrong_after_ring(comm, data, sum);

  const std::size_t elements = data.size() * static_cast<std::size_t>(comm.size());
  const auto show = [&](const char* name, std::size_t wrong) {
    program.console.line("  {:<14}  {}: {} wrong of {} on all ranks", name,
                         wrong == 0 ? "PASS" : "FAIL", wrong, elements);
  };
  show("ones", wrong_ones);
  show("tracer numbers", wrong_tracers);
  program.console.line("  element 0 is {} and should be {}", data[0], sum(0));
  return wrong_ones == 0 && wrong_tracers == elements && data[0] - sum(0) == kPerChunk;
}

}  // namespace dist
