// Belief:  lines appear on the screen in the order in which they were printed.
// Predict: the ranks pass a token around, and each holder prints the next line: 0, 1, 2, ...
//          In what order do the lines arrive?
// You see: in a file, the lines are sorted by rank, unless each line is flushed before the
//          token moves on. On the screen, the order varies from run to run. The program cannot
//          see the screen, so its verdict ignores that part.
// Why:     a printed line waits in its process's buffer, then in its rank's pipe, and mpirun
//          reads from each pipe what it finds. In this course, rank 0 therefore prints for all
//          ranks, and the others send their text to rank 0.
#include "01_send_recv/send_recv.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace dist {

constexpr int kRounds = 2;

// Calls print(number) for the numbers 0, 1, 2, ... on ranks 0, 1, ..., 0, 1, ... in turn. The
// token is passed on between calls, so each call begins after the previous one has returned.
template <class Print>
static void with_token(const Communicator& comm, int rounds, Print print) {
  std::array<std::int32_t, 1> token{};  // the next number
  for (int round = 0; round < rounds; ++round) {
    if (comm.rank() > 0 || round > 0) recv<std::int32_t>(comm, token, comm.left());
    print(token[0]++);
    const bool last = round + 1 == rounds && comm.rank() + 1 == comm.size();
    if (!last) send<std::int32_t>(comm, token, comm.right());
  }
}

// All ranks print into one file. Returns the numbers in the order in which the file has them.
static std::vector<int> print_into_file(const Communicator& comm, bool flush) {
  const pid_t id = comm.all_gather(::getpid())[0];  // rank 0's, for a name of our own
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("print-order-{}-{}", id, flush);
  // Append, as a shell's >> does, so that no rank overwrites another rank's lines.
  std::ofstream file(path, std::ios::app);
  if (!file) throw Error(path + ": cannot be written");
  with_token(comm, kRounds, [&](int number) {
    file << number << '\n';
    if (flush) file.flush();
  });
  file.close();
  comm.barrier();  // now all lines are in the file
  std::ifstream lines(path);
  const std::vector<int> order{std::istream_iterator<int>(lines), {}};
  comm.barrier();  // now all ranks have read it
  std::filesystem::remove(path);
  return order;
}

bool break_print_order(const Program& program) {
  const Communicator& comm = program.comm;
  // This is the only place in the course where each rank prints directly, without the Console.
  with_token(comm, 1, [&](int number) {
    fmt::print("  line {} by rank {}, on its way through mpirun\n", number, comm.rank());
    std::fflush(stdout);
  });
  bool seen = true;
  for (const bool flush : {false, true}) {
    const std::vector<int> order = print_into_file(comm, flush);
    const bool sorted = std::ranges::is_sorted(order);
    program.console.line("  one file, {}: {}: {}",
                         flush ? "each line flushed" : "lines buffered by rank",
                         join(order, " "), sorted ? "in order" : "out of order");
    const auto all = static_cast<std::size_t>(kRounds * comm.size());
    seen = seen && order.size() == all && sorted == flush;
  }
  return seen;
}

}  // namespace dist
