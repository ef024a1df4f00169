// Belief:  a test on a tensor of ones is enough: if every element is N, the ring is right.
// Predict: a ring's first message is chunk r instead of chunk r-1. Does a test with ones notice
//          the mistake? Does a test with numbers that show their origin?
// You see: ones PASS, tracer numbers FAIL in every element. In chunk 0, rank 1's share is
//          replaced by rank 1's share of chunk 1. Tracer numbers grow by 1 per element and a
//          chunk has 4 elements, so element 0 is too large by 4.
// Why:     before the first step every chunk holds one share, so with ones all chunks are
//          equal and a wrong chunk does no harm. Only data that differ in every position and
//          on every rank reveal the mistake.
// In the wild: the ring of PyTorch's tutorial sent buffers of zeros for years
//          (pytorch/pytorch#31572). The test of baidu-allreduce uses 1.0 everywhere.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/break_it/experiments.hpp"
#include "03_all_reduce/ring.hpp"
#include "common/join.hpp"

#include <mpi.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kPerChunk = 4;

// The lesson's reduce-scatter, written differently: the chunk that arrives is sent next.
void broken_reduce_scatter(const Communicator& comm, std::span<float> data) {
  std::vector<float> spare(kPerChunk);
  ChunkRange out = chunk_range(data.size(), comm.size(), comm.rank());  // wrong: not rank - 1
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

// Returns the ranks whose share is missing in `chunk`; all ranks get the same answer. In each
// run only one rank contributes nonzero numbers, so this method works for any number of ranks,
// unlike the lesson's picture, which has one digit per rank.
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
      fmt::format("  tracer numbers  {}: {} wrong of {}; element 0 is {} and should be {}",
                  verdict(wrong_tracers), wrong_tracers, elements, is, must_be));
  program.console.line(
      fmt::format("  provenance      chunk 0 lacks the share of rank {}", join(missing, ", ")));
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
