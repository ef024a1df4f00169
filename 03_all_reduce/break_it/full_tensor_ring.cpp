// Belief:  a ring that gives the right sum is a ring all-reduce.
// Predict: every rank passes whole tensors to the right, N-1 times, and adds up those that it
//          receives. The sum is right. How many bytes does a rank send?
// You see: values PASS, bytes FAIL: for a tensor of S bytes, each rank sends (N-1) S instead of
//          2 (N-1)/N S. That is twice as much on 4 ranks, and 32 times as much on 64.
// Why:     passing whole tensors around is an all-gather of all tensors. Every rank adds them
//          up on its own. In the lesson's ring, each chunk is added up only once, on one rank.
//          On 2 ranks both rings send S, so a test there sees no difference.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/ring.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <utility>
#include <vector>

namespace dist {

static void full_tensor_ring(const Communicator& comm, std::span<float> data) {
  std::vector<float> out(data.begin(), data.end());
  std::vector<float> in(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, out, comm.right(), in, comm.left());
    accumulate<float>(ReduceOp::sum, data, in);
    std::swap(out, in);
  }
}

bool break_full_tensor_ring(const Program& program) {
  const Communicator& comm = program.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<float> data(1024 * ranks);  // divisible by N, so all chunks are equally long
  const std::size_t tensor = data.size() * sizeof(float);
  const auto sum = [&](std::size_t i) { return tracer_sum(comm.size(), i); };
  bool right = true;
  Table table({"ring of", "values", "bytes per rank"});
  const auto bytes_sent = [&](const char* name, auto ring) {
    fill_tracer_numbers(data, comm.rank());
    const std::uint64_t bytes = count_traffic(comm, ring).value().bytes_per_rank;
    const bool pass = comm.all_agree(count_wrong(data, sum) == 0);
    table.add({name, pass ? "PASS" : "FAIL", std::to_string(bytes)});
    right = right && pass;
    return bytes;
  };
  const auto bytes = bytes_sent("whole tensors", [&] { full_tensor_ring(comm, data); });
  const auto enough =
      bytes_sent("chunks", [&] { all_reduce_ring<float>(comm, data, ReduceOp::sum); });
  table.print(program.console);
  program.console.line("bytes FAIL: {} = (N-1) S, but 2 (N-1)/N S = {} is enough", bytes,
                       enough);
  return right && bytes == (ranks - 1) * tensor && enough == 2 * (ranks - 1) * tensor / ranks;
}

}  // namespace dist
