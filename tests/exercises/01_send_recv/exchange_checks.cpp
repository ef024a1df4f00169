// Checks of a swap between two partners: values, different lengths, a rank that is its own
// peer, messages, and operations still in progress at the end.
#include "tests/exercises/01_send_recv/checks.hpp"
#include "tests/exercises/expectations.hpp"
#include "tests/support/counted.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = 1 << 20;

// The memory after `out` does not hold the guard zones' mark. If it did, a solution that sends
// and receives too much would overwrite the mark with the same value.
constexpr std::size_t kMore = 4000;

// In a pair, the lower rank has `lower` elements and the higher rank `higher`.
struct Lengths {
  std::size_t lower;
  std::size_t higher;

  std::size_t of(int rank, int peer) const { return rank <= peer ? lower : higher; }
};

// Short lengths: writes stay within a guard zone even if bytes are counted as elements.
const std::vector<Lengths> kSmall{{4, 4}, {0, 0}, {0, 5}, {5, 0}, {1, 7}, {7, 1}};

// The peer in round `round`. In comm.size() rounds every rank meets every rank, including
// itself, once: the numbers of the two ranks of a pair add up to the round, modulo the size.
int peer_in(const Trial& trial, int round) {
  return (round - trial.rank() + trial.size()) % trial.size();
}

// Runs the solution once, in round `round`, and then calls judge(in, where).
template <class Judge>
void swap_once(Trial& trial, const Exchange& solution, const Lengths& lengths, int peer,
               const Judge& judge) {
  const int rank = trial.rank();
  const std::size_t count = lengths.of(rank, peer);
  const Guarded more = tracers(trial, rank, count + kMore);
  Guarded in(lengths.of(peer, rank), -1.0F);
  solution(trial.comm(), peer, more.span().first(count), in.span());
  judge(in, fmt::format("with rank {}, sending {} elements and receiving ", peer, count));
}

// If `own`, runs the rounds in which the rank is its own peer; otherwise, runs all the others.
template <class Judge>
void swap_with_all(Trial& trial, const Exchange& solution, const std::vector<Lengths>& sizes,
                   bool own, const Judge& judge) {
  for (const Lengths& lengths : sizes) {
    for (int round = 0; round < trial.size(); ++round) {
      const int peer = peer_in(trial, round);
      if ((peer == trial.rank()) != own) continue;
      swap_once(trial, solution, lengths, peer,
                [&](const Guarded& in, const std::string& where) { judge(peer, in, where); });
    }
  }
}

void check_values(Trial& trial, const Exchange& solution, const std::vector<Lengths>& sizes,
                  bool own) {
  swap_with_all(trial, solution, sizes, own,
                [&](int peer, const Guarded& in, const std::string& where) {
                  expect_values(trial, in.span(), where,
                                [&](std::size_t i) { return trial.value(peer, i); });
                });
}

const std::string kHangHint =
    "the report says where each rank waits. If both are in MPI_Recv, nobody has sent yet: one "
    "must send first, or both must send and receive at once. If both are in MPI_Send, each may "
    "be waiting for the other to receive. If a rank waits for a tag that the message does not "
    "have, use the same tag on both sides. If it waits for the wrong rank, remember that "
    "`peer` is both destination and source";

}  // namespace

std::vector<Check> checks_of_exchange(const Exchange& solution) {
  return {
      {"four-numbers", "each partner receives the other's four numbers",
       "`out` goes to `peer` and `in` comes from `peer`: use the argument as both destination "
       "and source, whatever its value, and the same tag on both sides. MPI_ERR_TRUNCATE means "
       "that more arrived than the receive had room for; counts are in elements, not bytes",
       [=](Trial& trial) {
         check_values(trial, solution, {{4, 4}}, false);
       },
       kHangHint},
      {"guard-zones", "nothing is written outside `in`",
       "the count of a message is a number of elements, not of bytes: with MPI_FLOAT it is "
       "in.size() for the receive and out.size() for the send, which may differ",
       [=](Trial& trial) {
         swap_with_all(trial, solution, kSmall, false,
                       [&](int, const Guarded& in, const std::string& where) {
                         expect_intact(trial, in, where);
                       });
       },
       kHangHint},
      {"values", "each partner receives the other's numbers, however many there are",
       "partners may have different lengths, including 0: send out.size() elements and receive "
       "in.size()",
       [=](Trial& trial) {
         std::vector<Lengths> sizes = kSmall;
         const auto n = static_cast<std::size_t>(trial.size());
         sizes.insert(sizes.end(), {{n - 1, n}, {n, n + 1}, {3, 97}, {499, 2}, {499, 499}});
         check_values(trial, solution, sizes, false);
       },
       kHangHint},
      {"own-rank", "a rank that is its own peer gets its own numbers",
       "if the peer is the rank itself, no other rank can send or receive first. Start both "
       "the send and the receive before you wait for either, as MPI_Sendrecv does, or copy the "
       "numbers",
       // On one rank, this check would run first and report mistakes that belong to other
       // checks.
       [=](Trial& trial) {
         if (trial.size() > 1) check_values(trial, solution, {{4, 4}, {0, 0}, {97, 97}}, true);
       },
       ""},
      {"messages", "each partner sends one message, of out.size() floats",
       "in.size() already says how much arrives, so the length need not be announced. Send one "
       "message in each direction, and call no collective",
       [=](Trial& trial) {
         const Lengths lengths{5, 1000};
         const int peer = peer_in(trial, trial.size() - 1);  // 0 and N - 1, 1 and N - 2, ...
         const auto pairs = static_cast<std::uint64_t>(trial.size() / 2);
         const Traffic traffic = counted(trial.comm(), [&] {
           if (peer == trial.rank()) return;
           swap_once(trial, solution, lengths, peer, [](const auto&, const auto&) {});
         });
         trial.expect(traffic.messages == 2 * pairs, [&] {
           return fmt::format("{} pair(s) sent {} messages, expected {}", pairs,
                              traffic.messages, 2 * pairs);
         });
         trial.expect(traffic.collectives == 0, [] { return "an MPI collective was called"; });
         const std::uint64_t bytes = pairs == 0 ? 0 : lengths.higher * sizeof(float);
         trial.expect(traffic.bytes_per_rank == bytes, [&] {
           return fmt::format("{} floats are {} bytes, but {} were sent", lengths.higher, bytes,
                              traffic.bytes_per_rank);
         });
       },
       kHangHint},
      {"waits", "no send or receive is still in progress when the call returns",
       "MPI_Isend and MPI_Irecv only start an operation. Until MPI_Wait (or MPI_Waitall) has "
       "returned, `out` belongs to MPI, so wait before you return: the caller will write to it",
       [=](Trial& trial) {
         const int peer = peer_in(trial, trial.size() - 1);
         const Traffic traffic = counted(trial.comm(), [&] {
           if (peer == trial.rank()) return;
           swap_once(trial, solution, {8, 9}, peer, [](const auto&, const auto&) {});
         });
         trial.expect(traffic.unfinished == 0, [&] {
           return fmt::format("{} sends or receives were started but not waited for",
                              traffic.unfinished);
         });
       },
       kHangHint},
      {"large", "it works for messages too large for MPI to buffer",
       "send all out.size() elements in one message, and receive all in.size() elements in one",
       [=](Trial& trial) {
         const int peer = peer_in(trial, trial.size() - 1);
         if (trial.size() == 1) return;
         swap_once(trial, solution, {kLarge, kLarge - 1}, peer,
                   [&](const Guarded& in, const std::string& where) {
                     expect_values(trial, in.span(), where,
                                   [&](std::size_t i) { return trial.value(peer, i); });
                   });
       },
       "MPI_Send may wait until the peer is ready to receive. Small messages worked because "
       "MPI buffered them. Let one partner receive first, or send and receive at once: use "
       "MPI_Sendrecv, or MPI_Isend and MPI_Irecv"},
  };
}

}  // namespace dist::exercise
