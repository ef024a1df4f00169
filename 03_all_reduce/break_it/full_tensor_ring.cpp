// Belief:  a ring that gives the right sum is a ring all-reduce.
// Predict: every rank passes whole tensors to the right, N-1 times, and adds up those that it
//          receives. The sum is right. How many bytes does a rank send? Do all ranks hold the
//          same bits?
// You see: values PASS, bytes FAIL: for a tensor of S bytes, each rank sends (N-1) S instead of
//          2 (N-1)/N S. That is twice as much on 4 ranks, and 32 times as much on 64. If sums
//          are rounded, the ranks also end with different bits.
// Why:     passing whole tensors around is an all-gather of all tensors. Every rank adds them
//          up on its own, in its own order. In the lesson's ring, each chunk is added up only
//          once, on one rank. On 2 ranks both rings send S, so a test there sees no difference.
// In the wild: callummcdougall/ARENA_3.0#407; pytorch/pytorch#31572.
#include "01_send_recv/tracer_numbers.hpp"
#include "02_broadcast/fingerprint.hpp"
#include "02_broadcast/random.hpp"
#include "03_all_reduce/break_it/distinct.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>

#include <tuple>
#include <utility>
#include <vector>

namespace dist {
namespace {

void full_tensor_ring(const Communicator& comm, std::span<float> data) {
  std::vector<float> out(data.begin(), data.end());
  std::vector<float> in(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, out, comm.right(), in, comm.left());
    accumulate<float>(ReduceOp::sum, data, in);
    std::swap(out, in);
  }
}

}  // namespace

bool break_full_tensor_ring(const Program& program) {
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t count =
      1024 * ranks;  // divisible by N, so that all chunks are equally long

  std::vector<float> numbers(count);
  fill_tracer_numbers(numbers, comm.rank());
  std::vector<float> noise(count);
  Generator generator(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  fill_normal(noise, generator);

  // Returns the bytes that a rank sends and the number of different results over all ranks.
  Table table({"ring of", "values", "bytes per rank", "of the tensor", "different results"});
  const auto run = [&](const char* name, auto ring) {
    std::vector<float> data = numbers;
    const std::uint64_t bytes =
        count_traffic(comm, [&] { ring(comm, data); }).value().bytes_per_rank;
    const bool right = comm.all_agree(count_wrong(data, [&](std::size_t i) {
                                        double sum = 0;
                                        for (int rank = 0; rank < comm.size(); ++rank) {
                                          sum += tracer_number(rank, i);
                                        }
                                        return sum;
                                      }) == 0);
    data = noise;
    ring(comm, data);
    const std::size_t results = count_distinct(comm, fingerprint(data));
    const double tensors = static_cast<double>(bytes) / static_cast<double>(4 * count);
    table.add({name, right ? "PASS" : "FAIL", std::to_string(bytes),
               fmt::format("{:.3g}", tensors), std::to_string(results)});
    return std::tuple{right, bytes, results};
  };
  const auto [right, bytes, results] = run("whole tensors", full_tensor_ring);
  const auto [chunks_right, chunk_bytes, chunk_results] =
      run("chunks", [](const Communicator& c, std::span<float> data) {
        all_reduce_ring(c, data, ReduceOp::sum);
      });
  table.print(program.console);
  program.console.line(fmt::format("bytes FAIL: {} = (N-1) S, but 2 (N-1)/N S = {} is enough",
                                   bytes, chunk_bytes));
  return right && chunks_right && bytes == (ranks - 1) * 4 * count &&
         chunk_bytes == 2 * (ranks - 1) * 4 * (count / ranks) && results > 1 &&
         chunk_results == 1;
}

}  // namespace dist
