// What this file adds: four numbers per rank, before and after an exchange.
// Builds on: raw_messages and send_recv, whose typed calls make the same exchanges.
// Look at: expected_after_ring, which computes the right result without sending a message.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/nccl_send_recv.hpp"
#include "01_send_recv/raw_messages.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/acts.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace dist {
namespace {

constexpr std::size_t kNumbers = 4;

// Rank r starts with 1000 r, 1000 r + 1, ..., so that every number shows where it came from.
Tensor four_numbers(const Communicator& comm, const Stream& stream) {
  const Tensor tensor({kNumbers}, stream.device());
  on_host(stream, tensor,
          [&](std::span<float> numbers) { fill_tracer_numbers(numbers, comm.rank()); });
  return tensor;
}

// The same two exchanges with our typed wrappers. Compare them with raw_messages.cpp.
void wrapped_message(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;
  if (comm.rank() == 0) send<float>(comm, numbers, 1);
  if (comm.rank() == 1) recv<float>(comm, numbers, 0);
}

void wrapped_ring(const Communicator& comm, std::span<float> numbers) {
  if (comm.size() < 2) return;
  if (comm.rank() == 0) {
    send<float>(comm, numbers, comm.right());
    recv<float>(comm, numbers, comm.left());
  } else {
    std::vector<float> sum(numbers.size());
    recv<float>(comm, sum, comm.left());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += sum[i];
    send<float>(comm, numbers, comm.right());
  }
}

// Returns what number `i` of `rank` must be at the end, computed without sending a message.
float expected_after_message(int rank, int size, std::size_t i) {
  return tracer_number(rank == 1 && size > 1 ? 0 : rank, i);
}

float expected_after_ring(int rank, int size, std::size_t i) {
  const int last = rank == 0 ? size - 1 : rank;
  float sum = 0;  // of ranks 0 .. last, in the order in which the ring adds
  for (int r = 0; r <= last; ++r) sum += tracer_number(r, i);
  return sum;
}

using Exchange = void (*)(const Communicator&, std::span<float>);

// An exchange of the four numbers, made with MPI's calls and with ours, and its expected
// result.
struct Act {
  const char* name;
  const char* title;
  Exchange raw;
  Exchange wrapped;
  float (*expected)(int rank, int size, std::size_t index);
  bool adds;  // whether the host adds the numbers, and so must read them
};

constexpr Act kMessage{"message",
                       "message: rank 0 sends its four numbers to rank 1",
                       raw_message,
                       wrapped_message,
                       expected_after_message,
                       /*adds=*/false};
constexpr Act kRing{"ring",
                    "ring: a sum goes around once, and every rank adds its numbers",
                    raw_ring,
                    wrapped_ring,
                    expected_after_ring,
                    /*adds=*/true};

// Prints each rank's numbers before and after. Returns true on all ranks if `correct` is true
// on all of them.
bool report(const Program& program, const char* act, const std::vector<float>& before,
            const std::vector<float>& after, bool correct) {
  const Console& console = program.console;
  const int rank = program.comm.rank();
  lines_in_rank_order(console, program.comm,
                      fmt::format("  rank {}  {}  ->  {}{}", rank, join(before, " ", "{:6}"),
                                  join(after, " ", "{:6}"), correct ? "" : "   WRONG"));
  rows_in_rank_order(console, program.comm,
                     Json{{"act", act},
                          {"rank", rank},
                          {"before", before},
                          {"after", after},
                          {"correct", correct}});
  return program.comm.all_agree(correct);
}

// Returns the four numbers after the exchange.
std::vector<float> exchanged(const Program& program, const Act& act, Exchange exchange) {
  const Stream& stream = program.stream;
  const Tensor tensor = four_numbers(program.comm, stream);
  const auto call = [&](std::span<float> numbers) { exchange(program.comm, numbers); };
  if (act.adds) {
    on_host(stream, tensor, call);
  } else {
    for_mpi(stream, tensor, call);
  }
  return to_host(stream, tensor);
}

// Runs the exchange with MPI's calls and with ours, and checks every number.
bool show(const Program& program, const Act& act) {
  const Communicator& comm = program.comm;
  const std::vector<float> before = to_host(program.stream, four_numbers(comm, program.stream));
  const std::vector<float> after = exchanged(program, act, act.raw);
  const std::vector<float> after_wrapped = exchanged(program, act, act.wrapped);
  bool correct = true;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const float want = act.expected(comm.rank(), comm.size(), i);
    correct = correct && after[i] == want && after_wrapped[i] == want;
  }
  program.console.line(act.title);
  return report(program, act.name, before, after, correct);
}

}  // namespace

bool show_message(const Program& program, const SweepOptions&) {
  return show(program, kMessage);
}

bool show_ring(const Program& program, const SweepOptions&) {
  return show(program, kRing);
}

// All ranks send to the right at the same time, from GPU to GPU.
bool show_nccl(const Program& program, const SweepOptions&) {
  const Communicator& comm = program.comm;
  const Stream& stream = program.stream;
  NcclCommunicator nccl = connect_nccl_by_messages(comm, stream.device());
  const Tensor out = four_numbers(comm, stream);
  const Tensor in({kNumbers}, stream.device());
  send_recv_nccl(nccl, out, comm.right(), in, comm.left(), stream);
  nccl.synchronize(stream);
  const std::vector<float> after = to_host(stream, in);
  bool correct = true;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    correct = correct && after[i] == tracer_number(comm.left(), i);
  }
  program.console.line("nccl: every rank sends to the right, from GPU to GPU");
  return report(program, "nccl", to_host(stream, out), after, correct);
}

}  // namespace dist
