// What this file adds: what a message costs, by size, between two ranks and around a ring of
// all ranks; the line fitted to the first; a file with both for the later lessons.
// Look at: time_one_way, which sends back the data that has just arrived.
#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dist {

// Returns enough repeats for a stable median, but fewer of large messages, which take long.
static std::size_t repeats_of(const Tensor& tensor) {
  return std::clamp<std::size_t>((64U << 20) / (tensor.size_bytes() + 1), 9, 500);
}

static void fill_with_own(const Program& program, const Tensor& tensor) {
  on_host(program.stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, program.comm.rank()); });
}

// Whether the tensor holds the numbers of the rank `sender`.
static bool is_from(int sender, const Program& program, const Tensor& tensor) {
  return read_on_host(program.stream, tensor, [&](std::span<const float> data) {
    return count_wrong(data, [&](std::size_t i) { return tracer_number(sender, i); }) == 0;
  });
}

// Called on ranks 0 and 1. Returns half of the median round trip in seconds, by this rank's
// clock. A tensor on a GPU is staged through the host each time, unless MPI is CUDA-aware.
//
// Each rank sends back the data that has just arrived, as the algorithms of later lessons do.
// Sending the same array over and over would take less time, because it would still be in the
// receiver's cache.
static double time_one_way(const Program& program, const Tensor& tensor, bool& correct) {
  const Communicator& comm = program.comm;
  const int peer = 1 - comm.rank();
  const auto round_trip = [&] {
    for_mpi(program.stream, tensor, [&](std::span<float> data) {
      // Rank 1 must receive before it sends. If both ranks sent first, they would deadlock
      // whenever the message is too large for MPI to keep a copy.
      if (comm.rank() == 0) send<float>(comm, data, peer);
      recv<float>(comm, data, peer);
      if (comm.rank() == 1) send<float>(comm, data, peer);
    });
  };
  fill_with_own(program, tensor);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats_of(tensor) + 1; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    round_trip();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(time.count());  // the first round trip only warms up
  }
  correct = correct && is_from(0, program, tensor);
  return median(std::move(seconds)) / 2;
}

// Called on all ranks. Returns the time in seconds of one step of a ring, in which every rank
// passes on what it has received. As in a real ring, several steps follow each other without a
// barrier, so a rank that is late in one step may catch up in the next.
static double time_ring_step(const Program& program, const Tensor& tensor, bool& correct) {
  constexpr int kSteps = 4;  // even, so that the last message ends up in the tensor
  const Communicator& comm = program.comm;
  const Tensor second(tensor.shape(), mpi_is_cuda_aware() ? tensor.device() : Device{});
  const auto steps = [&] {
    for_mpi(program.stream, tensor, [&](std::span<float> data) {
      std::span<float> out = data;
      std::span<float> in(second.data(), second.numel());
      for (int step = 0; step < kSteps; ++step, std::swap(out, in)) {
        send_recv<float>(comm, out, comm.right(), in, comm.left());
      }
    });
  };
  fill_with_own(program, tensor);
  const auto rounds = static_cast<int>(std::max<std::size_t>(9, repeats_of(tensor) / kSteps));
  const double seconds = median_of_slowest(comm, rounds, steps) / kSteps;
  const int steps_done = (rounds + 1) * kSteps;  // with the warm-up
  const int sender = (comm.rank() - steps_done % comm.size() + comm.size()) % comm.size();
  correct = correct && is_from(sender, program, tensor);
  return seconds;
}

// Uses no core while it waits, because ranks 0 and 1 are still being measured. set_patience
// would do so only under the watch, and would change the naps of the ring, too.
static void sleeping_barrier(const Communicator& comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibarrier(comm.get(), &request));
  for (int done = 0; done == 0;) {
    MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

bool show_ping_pong(const Program& program, const SweepOptions& sweep) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  console.line(
      "ping-pong: ranks 0 and 1 exchange a tensor, then all pass it to the right; "
      "times in microseconds");
  std::vector<CostPoint> message;  // valid on rank 0
  std::vector<CostPoint> ring;
  bool correct = true;
  for (const std::size_t bytes : sweep.sizes()) {
    const Tensor tensor({bytes / sizeof(float)}, program.device.device);
    message.push_back({bytes, comm.rank() < 2 ? time_one_way(program, tensor, correct) : 0});
    sleeping_barrier(comm);
    ring.push_back({bytes, time_ring_step(program, tensor, correct)});
    console.row({{"act", "pingpong"},
                 {"bytes", bytes},
                 {"time_us", significant(1e6 * message.back().seconds)},
                 {"bandwidth_gbs", significant(1e-9 * message.back().bandwidth())},
                 {"ring_step_us", significant(1e6 * ring.back().seconds)}});
  }
  // With several ranks on each of several hosts, the ring crosses hosts, but ranks 0 and 1
  // usually share one.
  const bool ring_has_one_host = comm.local_size() == comm.size();
  const bool pair_has_one_host = comm.all_agree(comm.rank() != 1 || comm.local_rank() != 0);
  if (comm.rank() != 0) return comm.all_agree(correct);

  std::optional<LinkCost> cost;
  if (message.size() >= 3) cost = fit_link_cost(message);
  if (!cost) console.line("no alpha and beta, since a fit needs at least three sizes");
  Table table({"size", "one way", "GB/s", "fitted line", "all: ring"});
  for (std::size_t i = 0; i < message.size(); ++i) {
    const CostPoint& point = message[i];
    std::string line = "-";
    if (cost) {
      const double seconds = cost->line_seconds(point.bytes);
      line =
          fmt::format("{:.2f} ({:+.0f}%)", 1e6 * seconds, 100 * (seconds / point.seconds - 1));
    }
    table.add({format_bytes(point.bytes), fmt::format("{:.2f}", 1e6 * point.seconds),
               fmt::format("{:.3f}", 1e-9 * point.bandwidth()), line,
               fmt::format("{:.2f}", 1e6 * ring[i].seconds)});
  }
  table.print(console);
  Json fit{
      {"act", "fit"}, {"alpha_us", nullptr}, {"beta_ns_per_byte", nullptr}, {"r2", nullptr}};
  if (cost) {  // without a line, keep the old file
    cost->exchange = ring;
    cost->ranks = comm.size();
    cost->device = program.stream.device().type;
    cost->between_hosts = !ring_has_one_host;
    const std::string kept =
        ring_has_one_host == pair_has_one_host
            ? save_link_cost(*cost)
            : "not saved, because ranks 0 and 1 share a host: use one rank per host";
    fit["alpha_us"] = significant(1e6 * cost->alpha_s);
    fit["beta_ns_per_byte"] = significant(1e9 * cost->beta_s_per_byte);
    fit["r2"] = significant(cost->r2);
    fit["file"] = kept;
    console.line("fitted line: n bytes take {:.2f} us + n x {:.4f} ns (r2 {:.3f}); {}",
                 1e6 * cost->alpha_s, 1e9 * cost->beta_s_per_byte, cost->r2, kept);
  }
  console.row(fit);
  return comm.all_agree(correct);
}

}  // namespace dist
