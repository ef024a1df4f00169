// Belief:  the order of the lines on the screen is the order in which they were printed.
// Predict: the ranks pass a token around and print line 0, 1, 2, ... while they hold it. In
//          which order do the lines arrive?
// You see: written to one file through each rank's own buffer, as standard output is when it is
//          no terminal, they stand rank by rank. Flushed before the token goes on, they are in
//          order. What your screen shows has gone through mpirun, which reads a pipe per rank:
//          in one run in order, in the next one not: try it a few times. That is the
//          one thing that the program itself cannot see, so it counts for nothing.
// Why:     a printed line waits in its process's buffer, then in its rank's pipe, and mpirun
//          takes from the pipes what is there. None of them knows of the token. So rank 0
//          prints for all in this course, and what the others have to say travels to it first.
// In the wild: mpi-forum/mpi-issues#296, kokkos/kokkos-tools#25
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/join.hpp"

#include <fmt/core.h>

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

// Calls print(number) for number 0, 1, 2, ... on ranks 0, 1, ..., 0, 1, ...: each call begins
// after the one before has returned, for the token is passed in between.
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

// Rank 0 makes an empty file; all get its name, as lesson 1 can: one message for each.
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
  if (file < 0) throw Error(name + ": cannot be made");
  ::close(file);
  for (int rank = 1; rank < comm.size(); ++rank) send<char>(comm, path, rank);
  return path;
}

// The numbers in the order in which they stand in the file; empty but on rank 0.
std::vector<std::int64_t> print_into_file(const Communicator& comm, bool flush) {
  const Path path = share_file(comm);
  // Appending, as a shell's >> does: nobody writes over another's lines.
  std::FILE* const file = std::fopen(path.data(), "a");
  if (file == nullptr) throw Error(fmt::format("{}: cannot be written", path.data()));
  with_token(comm, kRounds, [&](std::int64_t number) {
    fmt::print(file, "{}\n", number);
    if (flush) std::fflush(file);
  });
  std::fclose(file);
  comm.barrier();  // all lines are in the file
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
  return one_host ? "" : "needs all ranks on one host, to write to one file";
}

bool break_print_order(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  if (!console.json()) {
    // Past the Console, each rank by itself: the one place in the course that does so.
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
                             is_flushed ? "each line flushed" : "each rank's buffer",
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
