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
#include "03_all_reduce/break_it/experiments.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

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

std::string why_nothing_is_counted(const Program&) {
  return watch_table() == nullptr ? "this program was built without the watch" : "";
}

bool break_full_tensor_ring(const Program& program) {
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<float> data(1024 * ranks);  // divisible by N, so that all chunks are equally long
  const std::size_t bytes = data.size() * sizeof(float);

  fill_tracer_numbers(data, comm.rank());
  const Traffic whole = count_traffic(comm, [&] { full_tensor_ring(comm, data); }).value();
  const std::size_t wrong = count_wrong(data, [&](std::size_t i) {
    double sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += tracer_number(rank, i);
    return sum;
  });
  const bool values_right = comm.all_agree(wrong == 0);
  const Traffic chunked =
      count_traffic(comm, [&] { all_reduce_ring<float>(comm, data, ReduceOp::sum); }).value();

  Generator generator(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  std::vector<float> noise(data.size());
  fill_normal(noise, generator);
  std::vector<float> same_noise = noise;
  full_tensor_ring(comm, noise);
  const std::size_t results = count_distinct(comm, fingerprint(noise));
  all_reduce_ring<float>(comm, same_noise, ReduceOp::sum);
  const std::size_t results_chunked = count_distinct(comm, fingerprint(same_noise));

  Table table({"ring of", "values", "bytes per rank", "of the tensor", "different results"});
  const auto add = [&](const char* name, bool right, const Traffic& traffic, std::size_t many) {
    table.add({name, right ? "PASS" : "FAIL", std::to_string(traffic.bytes_per_rank),
               fmt::format("{:.3g}", static_cast<double>(traffic.bytes_per_rank) /
                                         static_cast<double>(bytes)),
               std::to_string(many)});
  };
  add("whole tensors", values_right, whole, results);
  add("chunks", true, chunked, results_chunked);
  table.print(program.console);
  program.console.line(fmt::format("bytes FAIL: {} = (N-1) S, but 2 (N-1)/N S = {} is enough",
                                   whole.bytes_per_rank, chunked.bytes_per_rank));
  program.console.row({{"break", "full-tensor-ring"},
                       {"ranks", ranks},
                       {"tensor_bytes", bytes},
                       {"values_right", values_right},
                       {"bytes_per_rank", whole.bytes_per_rank},
                       {"bytes_per_rank_in_chunks", chunked.bytes_per_rank},
                       {"different_results", results},
                       {"different_results_in_chunks", results_chunked}});
  return values_right && whole.bytes_per_rank == (ranks - 1) * bytes &&
         chunked.bytes_per_rank == 2 * (ranks - 1) * (bytes / ranks) && results > 1 &&
         results_chunked == 1;
}

}  // namespace dist
