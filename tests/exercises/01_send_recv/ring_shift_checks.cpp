// One step of a ring: values, messages, and that nothing is left under way.
#include "tests/exercises/01_send_recv/checks.hpp"
#include "tests/exercises/expectations.hpp"
#include "tests/support/counted.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = 1 << 20;
// What follows `out` in memory is not the guard zones' mark: a solution that sends too much,
// and receives it, would overwrite one mark by another.
constexpr std::size_t kMore = 1000;

const std::string kHangHint =
    "the report says where each rank waits. All in MPI_Recv: nobody has sent yet. All in "
    "MPI_Send: it may wait until the receiver has come, and all of them wait in a circle; on "
    "one rank the circle is the rank itself. Send and receive must both be under way before "
    "either is waited for: MPI_Sendrecv, or MPI_Isend and MPI_Irecv";

// The solution once; judge(in) afterwards.
template <class Judge>
void shift_once(Trial& trial, const RingShift& solution, std::size_t count,
                const Judge& judge) {
  const Guarded more = tracers(trial, trial.rank(), count + kMore);
  Guarded in(count, -1.0F);
  solution(trial.comm(), more.span().first(count), in.span());
  judge(in);
}

void check_values(Trial& trial, const RingShift& solution, std::size_t count) {
  shift_once(trial, solution, count, [&](const Guarded& in) {
    expect_values(trial, in.span(), "",
                  [&](std::size_t i) { return trial.value(trial.comm().left(), i); });
  });
}

Traffic traffic_of(Trial& trial, const RingShift& solution, std::size_t count) {
  return counted(trial.comm(),
                 [&] { shift_once(trial, solution, count, [](const Guarded&) {}); });
}

}  // namespace

std::vector<Check> checks_of_ring_shift(const RingShift& solution) {
  return {
      {"four-numbers", "every rank has the four numbers of the rank on its left",
       "everybody sends to comm.right(), so what comes is from comm.left(); both name the same "
       "tag",
       [=](Trial& trial) { check_values(trial, solution, 4); }, kHangHint},
      {"guard-zones", "nothing is written outside of `in`",
       "the count of a message is in elements of its type, not in bytes: with MPI_FLOAT it is "
       "in.size()",
       [=](Trial& trial) {
         for (const std::size_t count : {1, 2, 5, 8}) {
           shift_once(trial, solution, count,
                      [&](const Guarded& in) { expect_intact(trial, in, ""); });
         }
       },
       kHangHint},
      {"values", "every rank has the left one's numbers, however many there are",
       "send all of out.size() elements and receive in.size(), which may be 0",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t count : {std::size_t{4}, std::size_t{0}, std::size_t{1}, n - 1,
                                         n, n + 1, std::size_t{97}}) {
           check_values(trial, solution, count);
         }
       },
       kHangHint},
      {"messages", "every rank sends one message, to the right",
       "only the left neighbour needs to be heard: one message per rank, to comm.right(), and "
       "no collective",
       [=](Trial& trial) {
         const bool alone = trial.size() == 1;
         const Traffic traffic = traffic_of(trial, solution, 200);
         const auto messages = static_cast<std::uint64_t>(trial.size());
         trial.expect(traffic.messages == messages || (alone && traffic.messages == 0), [&] {
           return fmt::format("{} messages in all, must be {}", traffic.messages, messages);
         });
         trial.expect(traffic.messages_per_rank <= 1, [&] {
           return fmt::format("a rank sent {} messages", traffic.messages_per_rank);
         });
         trial.expect(alone || traffic.peers == std::vector<int>{1},
                      [] { return "rank 0 sends to another rank than the one on its right"; });
         trial.expect(traffic.bytes_per_rank <= 200 * sizeof(float), [&] {
           return fmt::format("200 floats are 800 bytes, sent were {}", traffic.bytes_per_rank);
         });
         trial.expect(traffic.collectives == 0, [] { return "a collective was called"; });
       },
       kHangHint},
      {"waits", "nothing is under way any more when the call returns",
       "MPI_Isend and MPI_Irecv only start: until MPI_Wait (or MPI_Waitall) has come back, "
       "`out` belongs to MPI, and the caller will write to it",
       [=](Trial& trial) {
         const Traffic traffic = traffic_of(trial, solution, 8);
         trial.expect(traffic.unfinished == 0, [&] {
           return fmt::format("{} sends or receives were started and not waited for",
                              traffic.unfinished);
         });
       },
       kHangHint},
      {"lengths", "ranks may send different numbers of elements",
       "send out.size() elements and receive in.size(): the two differ where the left rank's "
       "`out` is longer or shorter than your own",
       [=](Trial& trial) {
         for (const std::size_t base : {0, 3, 97}) {
           const auto length_of = [&](int rank) {
             return base + static_cast<std::size_t>(rank % 3);
           };
           const Guarded more = tracers(trial, trial.rank(), length_of(trial.rank()) + kMore);
           Guarded in(length_of(trial.comm().left()), -1.0F);
           solution(trial.comm(), more.span().first(length_of(trial.rank())), in.span());
           expect_values(trial, in.span(), "",
                         [&](std::size_t i) { return trial.value(trial.comm().left(), i); });
           expect_intact(trial, in, "");
         }
       },
       kHangHint},
      {"large", "it works for messages that MPI does not copy",
       "send all of out.size() elements and receive all of in.size(), in one message",
       [=](Trial& trial) { check_values(trial, solution, kLarge); },
       "MPI_Send may wait until the receiver has come; small messages went well because MPI "
       "copied them. All ranks wait in a circle; on one rank the circle is the rank itself. "
       "Send and receive must both be under way before either is waited for: MPI_Sendrecv, or "
       "MPI_Isend and MPI_Irecv"},
  };
}

}  // namespace dist::exercise
