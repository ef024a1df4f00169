// Belief:  every collective call is a barrier: no rank leaves before all have entered. A token
//          that goes around once is also a barrier.
// Predict: the last rank enters 200 ms late. When does the root of a broadcast leave it?
// You see: about 200 ms before the last rank enters. A barrier holds the root until that rank
//          has entered. With three or more ranks, rank 1 has passed the token on before the
//          last rank enters.
// Why:     a collective promises each rank its own result and nothing more. The root is done
//          when its messages are on their way, and small messages wait for nobody. (With
//          --strict, they do wait; with two ranks, the root then leaves after the last rank has
//          entered.) Use a barrier, and no other collective, to be sure that the other ranks
//          have reached this point.
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "common/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

namespace dist {
namespace {

constexpr std::chrono::milliseconds kLate{200};  // how late the last rank enters

void pass_token(const Communicator& comm) {
  std::array<char, 1> token{};
  if (comm.rank() > 0) recv<char>(comm, token, comm.left());
  send<char>(comm, token, comm.right());
  if (comm.rank() == 0) recv<char>(comm, token, comm.left());
}

// When ranks left, in milliseconds after the last rank entered. All ranks get the same times.
struct Left {
  double root;
  double first;  // when the first rank left
};

template <class Collective>
Left time_with_one_late(const Communicator& comm, Collective collective) {
  const int last = comm.size() - 1;
  const auto now = [] {  // on the clock that a host's processes share
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(time).count();
  };
  comm.barrier();
  if (comm.rank() == last) std::this_thread::sleep_for(kLate);
  const double mine = now();
  collective();
  const std::vector<double> left = comm.all_gather(now());
  const double entered = comm.all_gather(mine).back();  // of the last rank
  return {left[0] - entered, std::ranges::min(left) - entered};
}

}  // namespace

bool break_barrier_myth(const Program& program) {
  const Communicator& comm = program.comm;
  std::array<float, 4> numbers{};
  const Left tree =
      time_with_one_late(comm, [&] { broadcast_tree<float>(comm, numbers, /*root=*/0); });
  const Left token = time_with_one_late(comm, [&] { pass_token(comm); });
  const Left barrier = time_with_one_late(comm, [&] { comm.barrier(); });

  program.console.line("  rank {} enters {} ms late; times are relative to its arrival:",
                       comm.size() - 1, kLate.count());
  Table table({"", "the root left", "the first rank left"});
  const auto add = [&](const char* call, const Left& left) {
    table.add(
        {call, fmt::format("{:.1f} ms", left.root), fmt::format("{:.1f} ms", left.first)});
  };
  add("broadcast (tree)", tree);
  add("token, once around", token);
  add("MPI_Barrier", barrier);
  table.print(program.console);
  const bool token_is_no_barrier = token.root >= 0 && (token.first < 0) == (comm.size() > 2);
  return tree.root < 0 && token_is_no_barrier && barrier.first >= 0;
}

}  // namespace dist
