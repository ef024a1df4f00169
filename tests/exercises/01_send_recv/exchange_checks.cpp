// Two partners swap: values, also of different lengths and with oneself, messages, and that
// nothing is left under way.
#include "tests/exercises/01_send_recv/checks.hpp"
#include "tests/exercises/expectations.hpp"
#include "tests/support/counted.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = 1 << 20;

// What follows `out` in memory is not the guard zones' mark: a solution that sends too much,
// and receives it, would overwrite one mark by another.
constexpr std::size_t kMore = 4000;

// Of a pair the lower rank has `lower` elements, the higher one `higher`.
struct Lengths {
  std::size_t lower;
  std::size_t higher;

  std::size_t of(int rank, int peer) const { return rank <= peer ? lower : higher; }
};

// Lengths that stay within a guard zone even where elements are taken for bytes.
const std::vector<Lengths> kSmall{{4, 4}, {0, 0}, {0, 5}, {5, 0}, {1, 7}, {7, 1}};

// The peer in round `round`, of comm.size() rounds in which everybody meets everybody, and
// oneself, once: the two ranks of a pair add up to the round, modulo the size.
int peer_in(const Trial& trial, int round) {
  return (round - trial.rank() + trial.size()) % trial.size();
}

// The solution once, in round `round`; judge(in, where) afterwards.
template <class Judge>
void swap_once(Trial& trial, const Exchange& solution, const Lengths& lengths, int peer,
               const Judge& judge) {
  const int rank = trial.rank();
  const std::size_t count = lengths.of(rank, peer);
  const Guarded more = tracers(trial, rank, count + kMore);
  Guarded in(lengths.of(peer, rank), -1.0F);
  solution(trial.comm(), peer, more.span().first(count), in.span());
  judge(in, fmt::format("with rank {}, {} elements out, in ", peer, count));
}

// In all rounds; with oneself only where `own`, and with others only where not.
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
    "the report says where each rank waits. Both in MPI_Recv: nobody has sent yet, one must "
    "send first or both do both at once. In MPI_Send: it may wait until the peer has come to "
    "its receive, which two ranks that both send first never do. For a tag that the message "
    "does not have: both sides must name the same. For a rank that is not the peer: `peer` is "
    "both destination and source";

}  // namespace

std::vector<Check> checks_of_exchange(const Exchange& solution) {
  return {
      {"four-numbers", "each partner has the other's four numbers",
       "`out` goes to `peer` and `in` comes from `peer`: destination and source are both the "
       "argument, whoever that is, and both sides name the same tag. MPI_ERR_TRUNCATE: more "
       "came than the receive has room for; counts are elements, not bytes",
       [=](Trial& trial) {
         check_values(trial, solution, {{4, 4}}, false);
       },
       kHangHint},
      {"guard-zones", "nothing is written outside of `in`",
       "the count of a message is in elements of its type, not in bytes: with MPI_FLOAT it is "
       "in.size() on receiving and out.size() on sending; the two may differ",
       [=](Trial& trial) {
         swap_with_all(trial, solution, kSmall, false,
                       [&](int, const Guarded& in, const std::string& where) {
                         expect_intact(trial, in, where);
                       });
       },
       kHangHint},
      {"values", "each partner has the other's numbers, however many there are",
       "partners may have different lengths, 0 included: send out.size() elements and receive "
       "in.size()",
       [=](Trial& trial) {
         std::vector<Lengths> sizes = kSmall;
         const auto n = static_cast<std::size_t>(trial.size());
         sizes.insert(sizes.end(), {{n - 1, n}, {n, n + 1}, {3, 97}, {499, 2}, {499, 499}});
         check_values(trial, solution, sizes, false);
       },
       kHangHint},
      {"own-rank", "a rank that is its own peer gets its own numbers",
       "with yourself as the peer nobody else sends or receives first: both must be under way "
       "before either is waited for, as in MPI_Sendrecv, or the numbers are copied",
       // On one rank alone this would be the first to see mistakes that have another name.
       [=](Trial& trial) {
         if (trial.size() > 1) check_values(trial, solution, {{4, 4}, {0, 0}, {97, 97}}, true);
       },
       ""},
      {"messages", "each partner sends one message, of out.size() floats",
       "in.size() says already how much comes, so nothing has to be asked or announced: one "
       "message there and one back, and no collective",
       [=](Trial& trial) {
         const Lengths lengths{5, 1000};
         const int peer = peer_in(trial, trial.size() - 1);  // 0 and N - 1, 1 and N - 2, ...
         const auto pairs = static_cast<std::uint64_t>(trial.size() / 2);
         const Traffic traffic = counted(trial.comm(), [&] {
           if (peer == trial.rank()) return;
           swap_once(trial, solution, lengths, peer, [](const auto&, const auto&) {});
         });
         trial.expect(traffic.messages == 2 * pairs, [&] {
           return fmt::format("{} pair(s) sent {} messages, must be {}", pairs,
                              traffic.messages, 2 * pairs);
         });
         trial.expect(traffic.collectives == 0, [] { return "a collective was called"; });
         const std::uint64_t bytes = pairs == 0 ? 0 : lengths.higher * sizeof(float);
         trial.expect(traffic.bytes_per_rank == bytes, [&] {
           return fmt::format("{} floats are {} bytes, sent were {}", lengths.higher, bytes,
                              traffic.bytes_per_rank);
         });
       },
       kHangHint},
      {"waits", "nothing is under way any more when the call returns",
       "MPI_Isend and MPI_Irecv only start: until MPI_Wait (or MPI_Waitall) has come back, "
       "`out` belongs to MPI, and the caller will write to it",
       [=](Trial& trial) {
         const int peer = peer_in(trial, trial.size() - 1);
         const Traffic traffic = counted(trial.comm(), [&] {
           if (peer == trial.rank()) return;
           swap_once(trial, solution, {8, 9}, peer, [](const auto&, const auto&) {});
         });
         trial.expect(traffic.unfinished == 0, [&] {
           return fmt::format("{} sends or receives were started and not waited for",
                              traffic.unfinished);
         });
       },
       kHangHint},
      {"large", "it works for messages that MPI does not copy",
       "send all of out.size() elements and receive all of in.size(), in one message",
       [=](Trial& trial) {
         const int peer = peer_in(trial, trial.size() - 1);
         if (trial.size() == 1) return;
         swap_once(trial, solution, {kLarge, kLarge - 1}, peer,
                   [&](const Guarded& in, const std::string& where) {
                     expect_values(trial, in.span(), where,
                                   [&](std::size_t i) { return trial.value(peer, i); });
                   });
       },
       "MPI_Send may wait until the peer has come to its receive. Small messages went well "
       "because MPI copied them. One of the two must receive first, or both do both at once: "
       "MPI_Sendrecv, or MPI_Isend and MPI_Irecv"},
  };
}

}  // namespace dist::exercise
