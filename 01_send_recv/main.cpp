// Lesson 1: a small tensor moves between ranks.
//
//   mpirun -np 4 build/bin/send_recv                  four numbers per rank, before and after
//   mpirun -np 2 build/bin/send_recv --act pingpong   what a message costs, by size
//
// Read raw_messages.cpp first, then send_recv.hpp, then this file.
#include "01_send_recv/nccl_send_recv.hpp"
#include "01_send_recv/ping_pong.hpp"
#include "01_send_recv/raw_messages.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/device.hpp"
#include "common/host_copy.hpp"
#include "common/mpi_environment.hpp"
#include "common/sweep_options.hpp"
#include "common/tracer_numbers.hpp"
#include "common/why_no_nccl.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace {

using namespace dist;

constexpr std::size_t kNumbers = 4;

// The tensor that walks through all five lessons: rank r starts with 1000 r, 1000 r + 1, ...,
// so that every number says where it comes from.
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

// What `rank` must hold at the end, computed without any message.
float expected_after_message(int rank, int size, std::size_t i) {
  return tracer_number(rank == 1 && size > 1 ? 0 : rank, i);
}

float expected_after_ring(int rank, int size, std::size_t i) {
  const int last = rank == 0 ? size - 1 : rank;
  float sum = 0;  // of ranks 0 .. last, in the order in which the ring adds
  for (int r = 0; r <= last; ++r) sum += tracer_number(r, i);
  return sum;
}

// Prints each rank's numbers before and after; true on all ranks if `correct` is true on all.
bool report(const Console& console, const Communicator& comm, const char* act,
            const char* title, const std::vector<float>& before,
            const std::vector<float>& after, bool correct) {
  console.line(title);
  lines_in_rank_order(
      console, comm,
      fmt::format("  rank {}  {:6}  ->  {:6}{}", comm.rank(), fmt::join(before, " "),
                  fmt::join(after, " "), correct ? "" : "   WRONG"));
  rows_in_rank_order(console, comm,
                     Json{{"act", act},
                          {"rank", comm.rank()},
                          {"before", before},
                          {"after", after},
                          {"correct", correct}});
  return comm.all_agree(correct);
}

using Exchange = void (*)(const Communicator&, std::span<float>);
using Expected = float (*)(int rank, int size, std::size_t index);

// Sends the tensor on a exchange, first with MPI's calls, then with ours, and checks every
// number.
bool show(const Console& console, const Communicator& comm, const Stream& stream,
          const char* act, const char* title, Exchange raw, Exchange wrapped,
          Expected expected) {
  const std::vector<float> before = to_host(stream, four_numbers(comm, stream));
  const auto exchanged = [&](Exchange exchange) {
    const Tensor tensor = four_numbers(comm, stream);
    on_host(stream, tensor, [&](std::span<float> numbers) { exchange(comm, numbers); });
    return to_host(stream, tensor);
  };
  const std::vector<float> after = exchanged(raw);
  const std::vector<float> after_wrapped = exchanged(wrapped);
  bool correct = true;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const float want = expected(comm.rank(), comm.size(), i);
    correct = correct && after[i] == want && after_wrapped[i] == want;
  }
  return report(console, comm, act, title, before, after, correct);
}

// One seat to the right for everybody at once, from GPU to GPU.
bool show_nccl(const Console& console, const Communicator& comm, const Stream& stream) {
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
  return report(console, comm, "nccl", "nccl: everybody sends to the right, GPU to GPU",
                to_host(stream, out), after, correct);
}

bool show_ping_pong(const Console& console, const Communicator& comm, const Stream& stream,
                    const SweepOptions& sweep) {
  console.line("ping-pong: ranks 0 and 1 exchange a tensor; times in microseconds");
  Table table({"size", "one way", "GB/s", "both: send_recv", "both: isend/irecv"});
  bool correct = true;
  for (const std::size_t bytes : sweep.sizes()) {
    const Tensor tensor({bytes / sizeof(float)}, stream.device());
    const PingPongTimes times = ping_pong(comm, tensor, stream);
    correct = correct && times.correct;
    const double gigabytes_per_s = static_cast<double>(bytes) / (1e3 * times.one_way_us);
    table.add({format_bytes(bytes), fmt::format("{:.2f}", times.one_way_us),
               fmt::format("{:.3f}", gigabytes_per_s), fmt::format("{:.2f}", times.combined_us),
               fmt::format("{:.2f}", times.nonblocking_us)});
    console.row({{"act", "pingpong"},
                 {"bytes", bytes},
                 {"time_us", significant(times.one_way_us)},
                 {"bandwidth_gbs", significant(gigabytes_per_s)},
                 {"exchange_combined_us", significant(times.combined_us)},
                 {"exchange_nonblocking_us", significant(times.nonblocking_us)}});
  }
  table.print(console);
  return comm.all_agree(correct);
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();

  CommonOptions common;
  std::string act = "default";
  SweepOptions sweep{.min_bytes = 4, .max_bytes = 4U << 20, .iterations = 0};
  DeviceChoice choice;
  CommandLine command_line("send_recv", "Lesson 1: a small tensor moves between ranks.");
  command_line.choice("--act", act, {"default", "message", "ring", "pingpong", "nccl", "all"},
                      "what to show; default: message and ring");
  sweep.declare(command_line, /*smallest=*/sizeof(float));
  common.declare(command_line);
  command_line.check([&] {
    if (act == "pingpong" && comm.size() < 2) throw Error("--act: pingpong needs two ranks");
    choice = choose_device(common.device, comm.local_rank());
  });
  std::string no_nccl;
  command_line.check_together([&] {
    no_nccl = why_no_nccl(comm, choice.device);
    if (act == "nccl" && !no_nccl.empty()) throw Error("--act: nccl: " + no_nccl);
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Console console(common.json, comm.rank() == 0);
  const Stream stream(choice.device, common.threads);
  console.line(describe_run(comm.size(), choice));

  const auto plays = [&](const char* name, bool by_default) {
    return act == name || act == "all" || (act == "default" && by_default);
  };
  bool correct = true;
  if (plays("message", true)) {
    correct &= show(console, comm, stream, "message",
                    "message: rank 0 sends its four numbers to rank 1", raw_message,
                    wrapped_message, expected_after_message);
  }
  if (plays("ring", true)) {
    correct &= show(console, comm, stream, "ring",
                    "ring: a sum goes around once, and every rank adds its numbers", raw_ring,
                    wrapped_ring, expected_after_ring);
  }
  if (plays("pingpong", false)) {
    if (comm.size() < 2) {
      console.line("ping-pong: needs two ranks, left out");
    } else {
      correct &= show_ping_pong(console, comm, stream, sweep);
    }
  }
  if (plays("nccl", false)) {
    if (no_nccl.empty()) {
      correct &= show_nccl(console, comm, stream);
    } else {
      console.line("nccl: left out: " + no_nccl);
    }
  }
  return console.verdict(correct, "every number is what it must be, on every rank",
                         "some rank holds a wrong number");
}
