// Belief:  every collective call is a barrier: no rank leaves before all have entered. A token
//          that goes around once is also a barrier.
// Predict: the last rank enters 200 ms late. When does the root of a broadcast leave it?
// You see: about 200 ms before the last rank enters. A barrier holds the root until that rank
//          has entered. With three or more ranks, rank 1 has passed the token on before the
//          last rank enters. MPI's own broadcast is timed but not judged, because it may wait.
// Why:     a collective promises each rank its own result and nothing more. The root is done
//          when its messages are on their way, and small messages wait for nobody. (With
//          --strict, they do wait; with two ranks, the root then leaves after the last rank has
//          entered.) Use a barrier, and no other collective, to be sure that the other ranks
//          have reached this point.
// In the wild: two broadcasts used as synchronize() in
//          facebookresearch/maskrcnn-benchmark#172, and one in dmlc/rabit#35
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/break_it/experiments.hpp"
#include "02_broadcast/broadcast.hpp"

#include <mpi.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLate{200};  // how late the last rank enters

void broadcast_four_numbers(const Communicator& comm, BroadcastAlgorithm algorithm) {
  std::array<float, 4> numbers{};
  broadcast<float>(comm, numbers, /*root=*/0, algorithm);
}

void pass_token(const Communicator& comm) {
  std::array<char, 1> token{};
  if (comm.rank() > 0) recv<char>(comm, token, comm.left());
  send<char>(comm, token, comm.right());
  if (comm.rank() == 0) recv<char>(comm, token, comm.left());
}

// When ranks left, relative to the moment when the last rank entered. All ranks get the same
// times.
struct Left {
  double root_ms;
  double first_ms;  // when the first rank left
};

template <class Collective>
Left time_with_one_late(const Communicator& comm, Collective collective) {
  comm.barrier();
  if (comm.rank() + 1 == comm.size()) std::this_thread::sleep_for(kLate);
  // When this rank entered and left, in nanoseconds on the clock that a host's processes share.
  const auto now = [] { return std::int64_t{Clock::now().time_since_epoch().count()}; };
  std::array<std::int64_t, 2> mine{now(), 0};
  collective();
  mine[1] = now();
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(comm.size()));
  MPI_CHECK(MPI_Allgather(mine.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, comm.get()));
  const std::int64_t came = all[all.size() - 2];
  std::int64_t first = all[1];
  for (std::size_t i = 1; i < all.size(); i += 2) first = std::min(first, all[i]);
  const auto ms = [came](std::int64_t left) { return static_cast<double>(left - came) * 1e-6; };
  return {ms(all[1]), ms(first)};
}

}  // namespace

std::string why_no_barrier_myth(const Program& program) {
  const bool one_host =
      program.comm.all_agree(program.comm.local_size() == program.comm.size());
  return one_host ? "" : "needs all ranks on one host, because it compares times on one clock";
}

bool break_barrier_myth(const Program& program) {
  const Communicator& comm = program.comm;
  Table table({"", "the root left", "the first rank left"});
  const auto report = [&](const std::string& name, const Left& left) {
    table.add({name, fmt::format("{:.1f} ms", left.root_ms),
               fmt::format("{:.1f} ms", left.first_ms)});
    program.console.row({{"break", "barrier-myth"},
                         {"call", name},
                         {"root_left_ms", significant(left.root_ms)},
                         {"first_left_ms", significant(left.first_ms)}});
    return left;
  };
  const Left tree = report("broadcast (tree)", time_with_one_late(comm, [&] {
                             broadcast_four_numbers(comm, BroadcastAlgorithm::tree);
                           }));
  report("MPI_Bcast", time_with_one_late(comm, [&] {
           broadcast_four_numbers(comm, BroadcastAlgorithm::mpi);
         }));
  const Left token =
      report("token, once around", time_with_one_late(comm, [&] { pass_token(comm); }));
  const Left barrier = report("MPI_Barrier", time_with_one_late(comm, [&] { comm.barrier(); }));
  program.console.line(fmt::format(
      "  rank {} enters {} ms late; times are relative to its arrival:", comm.size() - 1,
      kLate.count()));
  table.print(program.console);
  const bool token_left_early = comm.size() < 3 || token.first_ms < 0;
  return tree.root_ms < 0 && token_left_early && barrier.first_ms >= 0;
}

}  // namespace dist
