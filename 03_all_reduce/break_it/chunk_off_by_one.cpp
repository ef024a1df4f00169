// Belief:  a test on a tensor of ones is enough: if every element is N, the ring is right.
// Predict: a ring whose first message is chunk r where it must be chunk r-1. Does the test with
//          ones see it? The test with numbers that say where they come from?
// You see: ones PASS, tracer numbers FAIL in every element. Chunk 0 lacks what rank 1 holds of
//          it; what rank 1 holds of chunk 1 stands in its place, so that element 0 is 4 too
//          large: the 4 elements of a chunk.
// Why:     before the first step every chunk holds one share, so with ones all chunks look
//          alike: the wrong one is as good as the right one. Only data in which no two places
//          and no two ranks are equal can tell.
// In the wild: the ring of PyTorch's tutorial sent buffers of zeros for years
//          (pytorch/pytorch#31572); baidu-allreduce's test holds 1.0 everywhere.
#include "01_send_recv/show/tracer_numbers.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "03_all_reduce/ring.hpp"
#include "common/join.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <string>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kPerChunk = 4;

// The lesson's reduce-scatter written another way: what arrives is what leaves next.
void broken_reduce_scatter(const Communicator& comm, std::span<float> data) {
  std::vector<float> spare(kPerChunk);
  ChunkRange out = chunk_range(data.size(), comm.size(), comm.rank());  // must be rank - 1
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange in = chunk_range(data.size(), comm.size(), comm.rank() - 2 - step);
    send_recv<float>(comm, window(data, out), comm.right(), spare, comm.left());
    accumulate<float>(ReduceOp::sum, window(data, in), spare);
    out = in;
  }
}

void broken_ring(const Communicator& comm, std::span<float> data) {
  broken_reduce_scatter(comm, data);
  ring_all_gather(comm, data);
}

std::vector<float> message(const Communicator& comm, float value) {
  return std::vector<float>(kPerChunk * static_cast<std::size_t>(comm.size()), value);
}

template <class Expected>
std::size_t wrong_on_all_ranks(const Communicator& comm, std::span<const float> data,
                               Expected expected) {
  std::uint64_t wrong = count_wrong(data, expected);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  return wrong;
}

// The ranks whose share does not come into `chunk`: everybody but one sends nothing there. The
// lesson's picture gives each rank a digit; here the digit is a run of its own, so that any
// number of ranks can be told apart. The same on all ranks.
std::vector<int> missing_in(const Communicator& comm, int chunk) {
  std::vector<int> missing;
  for (int suspect = 0; suspect < comm.size(); ++suspect) {
    std::vector<float> data = message(comm, 0);
    const ChunkRange range = chunk_range(data.size(), comm.size(), chunk);
    if (comm.rank() == suspect) std::ranges::fill(window(std::span(data), range), 1.0F);
    broken_ring(comm, data);
    if (data[range.begin] != 1) missing.push_back(suspect);
  }
  return missing;
}

}  // namespace

bool break_chunk_off_by_one(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> data = message(comm, 1);
  broken_ring(comm, data);
  const auto size = static_cast<double>(comm.size());
  const std::size_t wrong_ones =
      wrong_on_all_ranks(comm, data, [&](std::size_t) { return size; });

  fill_tracer_numbers(data, comm.rank());
  broken_ring(comm, data);
  const std::size_t wrong_tracers = wrong_on_all_ranks(comm, data, [&](std::size_t i) {
    double sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += tracer_number(rank, i);
    return sum;
  });

  double must_be = 0;
  for (int rank = 0; rank < comm.size(); ++rank) must_be += tracer_number(rank, 0);
  const double is = data[0];

  const std::vector<int> missing = missing_in(comm, 0);
  const std::size_t elements = data.size() * static_cast<std::size_t>(comm.size());
  const auto verdict = [](std::size_t wrong) { return wrong == 0 ? "PASS" : "FAIL"; };
  program.console.line(fmt::format("  ones            {}: {} wrong of {} on all ranks",
                                   verdict(wrong_ones), wrong_ones, elements));
  program.console.line(
      fmt::format("  tracer numbers  {}: {} wrong of {}; element 0 is {} and must be {}",
                  verdict(wrong_tracers), wrong_tracers, elements, is, must_be));
  program.console.line(
      fmt::format("  provenance      chunk 0 has no share of rank {}", join(missing, ", ")));
  program.console.row({{"break", "chunk-off-by-one"},
                       {"ranks", comm.size()},
                       {"wrong_ones", wrong_ones},
                       {"wrong_tracer_numbers", wrong_tracers},
                       {"elements", elements},
                       {"element_0", is},
                       {"element_0_right", must_be},
                       {"missing_in_chunk_0", missing}});
  return wrong_ones == 0 && wrong_tracers > 0 && missing == std::vector{1 % comm.size()};
}

}  // namespace dist
