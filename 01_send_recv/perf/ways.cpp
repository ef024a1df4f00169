// What this file adds: the eager limit of this machine, a table of five ways to pass numbers
// on, and a program that relies on MPI_Send returning early.
// Builds on: eager_limit, exchanges.
// Look at: show_deadlock, which is wrong on purpose.
#include "01_send_recv/exchanges.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/nccl_send_recv.hpp"
#include "01_send_recv/perf/eager_limit.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "01_send_recv/show.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dist {

static std::string describe(const EagerLimit& limit) {
  return fmt::format("{}{} bytes", limit.found ? "" : "at least ", limit.bytes);
}

// Above the smallest of the limits, at least one send waits for its receive.
static EagerLimit smallest_of(const std::vector<EagerLimit>& limits) {
  return std::ranges::min(limits, {}, &EagerLimit::bytes);
}

// Returns the time in seconds and, on all ranks, how many numbers were wrong.
static std::pair<double, std::uint64_t> time_way(const Communicator& comm,
                                                 const WayToExchange& way, std::size_t bytes) {
  std::vector<float> out(bytes / sizeof(float));
  std::vector<float> in(out.size());
  const auto prepare = [&] {
    // Write the numbers anew, as a real program would: else they are in the receiver's cache.
    fill_tracer_numbers(out, comm.rank());
    std::fill(in.begin(), in.end(), -1.0F);
  };
  const int iterations = bytes > (1U << 16) ? 20 : 100;
  std::uint64_t wrong = 0;
  const auto check = [&] {
    wrong += count_wrong(in, [&](std::size_t i) { return tracer_number(comm.left(), i); });
  };
  const double seconds = median_of_slowest(
      comm, iterations, [&] { way.exchange(comm, out, in); }, prepare, check);
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
  return {seconds, wrong};
}

bool show_eager_limit(const Program& program, const SweepOptions&) {
  program.console.line(
      "eager limit: MPI_Send returns before the receive is called, for messages of up to");
  for (const EagerLimit& limit : find_eager_limits(program.comm)) {
    program.console.line("  {} from rank 0 to rank {} on {} host", describe(limit),
                         limit.receiver, limit.same_host ? "the same" : "a different");
    program.console.row({{"act", "eager"},
                         {"receiver", limit.receiver},
                         {"same_host", limit.same_host},
                         {"eager_limit_bytes", limit.found ? Json(limit.bytes) : Json()}});
  }
  return true;
}

bool show_exchanges(const Program& program, const SweepOptions&) {
  const EagerLimit limit = smallest_of(find_eager_limits(program.comm));
  Table table({"way", "call", "4 B", "64 KiB", "1 MiB", "if all send first"});
  bool correct = true;
  for (const WayToExchange& way : kWaysToExchange) {
    const std::string risk = fmt::format(fmt::runtime(way.if_all_send_first), describe(limit));
    std::vector<std::string> cells{way.name, way.call};
    for (const std::size_t bytes : {4U, 64U << 10, 1U << 20}) {
      const auto [seconds, wrong] = time_way(program.comm, way, bytes);
      correct = correct && wrong == 0;
      cells.push_back(fmt::format("{:.1f}{}", 1e6 * seconds, wrong == 0 ? "" : " WRONG"));
      program.console.row({{"act", "exchange"},
                           {"way", way.name},
                           {"call", way.call},
                           {"bytes", bytes},
                           {"time_us", significant(1e6 * seconds)},
                           {"wrong", wrong},
                           {"if_all_send_first", risk}});
    }
    cells.push_back(risk);
    table.add(cells);
  }
  program.console.line(
      "exchange: every rank passes its numbers to the right, in five ways; times in "
      "microseconds");
  table.print(program.console);
  return correct;
}

// Every rank sends to the right and would receive afterwards. Above the eager limit, no send
// returns before its receive is called, and no receive is called before a send returns:
//
//   rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3, which waits for 0
bool show_deadlock(const Program& program, const SweepOptions&) {
  const Communicator& comm = program.comm;
  const std::vector<EagerLimit> limits = find_eager_limits(comm);
  std::size_t bytes = 4U << 20;
  for (const EagerLimit& limit : limits) bytes = std::max(bytes, 2 * limit.bytes);
  program.console.line(
      "deadlock: every rank sends {} to the right before it receives;\n"
      "  the eager limit is {}",
      format_bytes(bytes), describe(smallest_of(limits)));
  std::vector<float> out(bytes / sizeof(float));
  fill_tracer_numbers(out, comm.rank());
  std::vector<float> in(out.size());
  const int count = mpi_count(out.size());
  MPI_CHECK(MPI_Send(out.data(), count, MPI_FLOAT, comm.right(), /*tag=*/0, comm.get()));
  // No rank gets here.
  MPI_CHECK(MPI_Recv(in.data(), count, MPI_FLOAT, comm.left(), /*tag=*/0, comm.get(),
                     MPI_STATUS_IGNORE));
  throw Error(fmt::format("nothing hung: this MPI sends even {} eagerly", format_bytes(bytes)));
}

bool show_nccl(const Program& program, const SweepOptions&) {
  const Communicator& comm = program.comm;
  const Stream& stream = program.stream;
  NcclCommunicator nccl = connect_nccl_by_messages(comm, stream.device());
  const Tensor out = four_numbers(program);
  const Tensor in(out.shape(), stream.device());
  send_recv_nccl(nccl, out, comm.right(), in, comm.left(), stream);
  nccl.synchronize(stream);
  return show(program, "nccl", "every rank sends to the right, from GPU to GPU", in,
              [&](int i) { return 1000 * comm.left() + i; });
}

}  // namespace dist
