// Checks of one step of a ring: values, messages, and operations still in progress at the end.
#include "tests/exercises/01_send_recv/checks.hpp"
#include "tests/exercises/expectations.hpp"
#include "tests/support/counted.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = 1 << 20;
// The memory after `out` does not hold the guard zones' mark. If it did, a solution that sends
// and receives too much would overwrite the mark with the same value.
constexpr std::size_t kMore = 1000;

const std::string kHangHint =
    "the report says where each rank waits. If all are in MPI_Recv, nobody has sent yet. If "
    "all are in MPI_Send, each waits for its neighbour to receive, in a circle; a single rank "
    "waits for itself. Start both the send and the receive before you wait for either: use "
    "MPI_Sendrecv, or MPI_Isend and MPI_Irecv";

// Runs the solution once, and then calls judge(in).
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
      {"four-numbers", "every rank receives the four numbers of the rank on its left",
       "every rank sends to comm.right(), so it receives from comm.left(); the send and the "
       "receive must use the same tag",
       [=](Trial& trial) { check_values(trial, solution, 4); }, kHangHint},
      {"guard-zones", "nothing is written outside `in`",
       "the count of a message is a number of elements, not of bytes: with MPI_FLOAT it is "
       "in.size()",
       [=](Trial& trial) {
         for (const std::size_t count : {1, 2, 5, 8}) {
           shift_once(trial, solution, count,
                      [&](const Guarded& in) { expect_intact(trial, in, ""); });
         }
       },
       kHangHint},
      {"values", "every rank receives its left neighbour's numbers, however many there are",
       "send all out.size() elements and receive in.size() elements; either number may be 0",
       [=](Trial& trial) {
         const auto n = static_cast<std::size_t>(trial.size());
         for (const std::size_t count : {std::size_t{4}, std::size_t{0}, std::size_t{1}, n - 1,
                                         n, n + 1, std::size_t{97}}) {
           check_values(trial, solution, count);
         }
       },
       kHangHint},
      {"messages", "every rank sends one message, to its right",
       "a rank needs only its left neighbour's numbers: send one message per rank, to "
       "comm.right(), and call no collective",
       [=](Trial& trial) {
         const bool alone = trial.size() == 1;
         const Traffic traffic = traffic_of(trial, solution, 200);
         const auto messages = static_cast<std::uint64_t>(trial.size());
         trial.expect(traffic.messages == messages || (alone && traffic.messages == 0), [&] {
           return fmt::format("{} messages in total, expected {}", traffic.messages, messages);
         });
         trial.expect(traffic.messages_per_rank <= 1, [&] {
           return fmt::format("a rank sent {} messages", traffic.messages_per_rank);
         });
         trial.expect(alone || traffic.peers == std::vector<int>{1},
                      [] { return "rank 0 sends to a rank other than its right neighbour"; });
         trial.expect(traffic.bytes_per_rank <= 200 * sizeof(float), [&] {
           return fmt::format("200 floats are 800 bytes, but {} were sent",
                              traffic.bytes_per_rank);
         });
         trial.expect(traffic.collectives == 0, [] { return "an MPI collective was called"; });
       },
       kHangHint},
      {"waits", "no send or receive is still in progress when the call returns",
       "MPI_Isend and MPI_Irecv only start an operation. Until MPI_Wait (or MPI_Waitall) has "
       "returned, `out` belongs to MPI, so wait before you return: the caller will write to it",
       [=](Trial& trial) {
         const Traffic traffic = traffic_of(trial, solution, 8);
         trial.expect(traffic.unfinished == 0, [&] {
           return fmt::format("{} sends or receives were started but not waited for",
                              traffic.unfinished);
         });
       },
       kHangHint},
      {"lengths", "ranks may send different numbers of elements",
       "send out.size() elements and receive in.size(). These numbers differ if the left "
       "rank's `out` is longer or shorter than yours",
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
      {"large", "it works for messages too large for MPI to buffer",
       "send all out.size() elements in one message, and receive all in.size() elements in one",
       [=](Trial& trial) { check_values(trial, solution, kLarge); },
       "MPI_Send may wait until the receiver is ready; small messages worked because MPI "
       "buffered them. Now all ranks wait in a circle; a single rank waits for itself. "
       "Start both the send and the receive before you wait for either: use MPI_Sendrecv, or "
       "MPI_Isend and MPI_Irecv"},
  };
}

}  // namespace dist::exercise
