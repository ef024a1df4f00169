// Belief:  lines appear on the screen in the order in which they were printed.
// Predict: the ranks pass a token around, and each holder prints the next line: 0, 1, 2, ...
//          In what order do the lines arrive?
// You see: in a file, the lines are sorted by rank, because each rank's buffer is written when
//          the rank closes the file. If each line is flushed before the token moves on, the
//          lines are in order. Lines on the screen pass through mpirun, which reads one pipe
//          per rank, so they are in order in some runs but not in others. Run the experiment a
//          few times. The program cannot see the screen, so its verdict ignores that part.
// Why:     a printed line waits in its process's buffer, then in its rank's pipe, and mpirun
//          reads from each pipe what it finds. Neither the buffers nor mpirun know about the
//          token. In this course, rank 0 therefore prints for all ranks, and the others send
//          their text to rank 0.
// In the wild: mpi-forum/mpi-issues#296, kokkos/kokkos-tools#25
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace dist {
namespace {

constexpr int kRounds = 2;

// Calls print(number) for the numbers 0, 1, 2, ... on ranks 0, 1, ..., 0, 1, ... in turn. The
// token is passed on between calls, so each call begins after the previous one has returned.
template <class Print>
void with_token(const Communicator& comm, int rounds, Print print) {
  std::int64_t number = 0;
  const std::span<std::int64_t> token(&number, 1);
  for (int round = 0; round < rounds; ++round) {
    if (comm.rank() > 0 || round > 0) recv<std::int64_t>(comm, token, comm.left());
    print(number);
    ++number;
    const bool last = round + 1 == rounds && comm.rank() + 1 == comm.size();
    if (!last) send<std::int64_t>(comm, token, comm.right());
  }
}

using Path = std::array<char, 256>;

// Rank 0 creates an empty file and sends its name to every other rank.
Path share_file(const Communicator& comm) {
  Path path{};
  if (comm.rank() != 0) {
    recv<char>(comm, path, 0);
    return path;
  }
  const std::string name = std::filesystem::temp_directory_path() / "print-order-XXXXXX";
  if (name.size() >= path.size()) throw Error("the name of the temporary folder is too long");
  std::copy(name.begin(), name.end(), path.begin());
  const int file = ::mkstemp(path.data());
  if (file < 0) throw Error(name + ": cannot be created");
  ::close(file);
  for (int rank = 1; rank < comm.size(); ++rank) send<char>(comm, path, rank);
  return path;
}

// Returns the numbers in the order in which the file holds them; empty except on rank 0.
std::vector<std::int64_t> print_into_file(const Communicator& comm, bool flush) {
  const Path path = share_file(comm);
  // Append, as a shell's >> does, so that no rank overwrites another rank's lines.
  std::FILE* const file = std::fopen(path.data(), "a");
  if (file == nullptr) throw Error(fmt::format("{}: cannot be written", path.data()));
  with_token(comm, kRounds, [&](std::int64_t number) {
    fmt::print(file, "{}\n", number);
    if (flush) std::fflush(file);
  });
  std::fclose(file);
  comm.barrier();  // now all lines are in the file
  std::vector<std::int64_t> order;
  if (comm.rank() == 0) {
    std::ifstream lines(path.data());
    for (std::int64_t number = 0; lines >> number;) order.push_back(number);
    std::filesystem::remove(path.data());
  }
  return order;
}

std::size_t out_of_place(const std::vector<std::int64_t>& order) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) ++count;
  }
  return count;
}

}  // namespace

std::string why_no_print_order(const Program& program) {
  const bool one_host =
      program.comm.all_agree(program.comm.local_size() == program.comm.size());
  return one_host ? "" : "needs all ranks on one host, so that they can write to one file";
}

bool break_print_order(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  if (!console.json()) {
    // This is the only place in the course where each rank prints directly, without the
    // Console.
    with_token(comm, 1, [&](std::int64_t number) {
      fmt::print("  line {} by rank {}, on its way through mpirun\n", number, comm.rank());
      std::fflush(stdout);
    });
  }
  const std::vector<std::int64_t> buffered = print_into_file(comm, /*flush=*/false);
  const std::vector<std::int64_t> flushed = print_into_file(comm, /*flush=*/true);
  for (const auto* order : {&buffered, &flushed}) {
    const bool is_flushed = order == &flushed;
    console.line(fmt::format("  one file, {}: {}; out of place: {}",
                             is_flushed ? "each line flushed" : "lines buffered by rank",
                             join(*order, " "), out_of_place(*order)));
    console.row({{"break", "print-order"},
                 {"flushed", is_flushed},
                 {"order", *order},
                 {"out_of_place", out_of_place(*order)}});
  }
  const auto all = static_cast<std::size_t>(kRounds * comm.size());
  return comm.rank() != 0 || (buffered.size() == all && out_of_place(buffered) > 0 &&
                              flushed.size() == all && out_of_place(flushed) == 0);
}

}  // namespace dist
