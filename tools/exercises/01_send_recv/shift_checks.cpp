// Checks of one step of a ring and of a swap between two partners: values, lengths, messages,
// and operations still in progress at the end.
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using Exchange =
    std::function<void(const Communicator&, int, std::span<const float>, std::span<float>)>;
using RingShift =
    std::function<void(const Communicator&, std::span<const float>, std::span<float>)>;
// Sends `sends` tracers and receives `receives` numbers, which must be those of rank `source`.
template <class Solution>
static void move(Trial& trial, const Solution& solution, std::size_t sends,
                 std::size_t receives, int source, bool values = true) {
  const Guarded more = tracers(trial, trial.rank(), sends + 4000);
  Guarded in(receives, -1.0F);
  trial.call(fmt::format("{} elements to send and {} to receive", sends, receives));
  solution(more.first(sends), in.span());
  const std::string where =
      fmt::format("from rank {}, sending {} and receiving ", source, sends);
  for (std::size_t i = 0; i < more.span().size(); ++i) {
    trial.expect(Seen::changed, more.span()[i] == trial.value(trial.rank(), i),
                 "{}{} elements: element {} of `out` has changed", where, receives, i);
  }
  if (!values) return expect_intact(trial, in, where);
  const bool was_right = trial.mistake().empty();
  expect_values(trial, in.span(), where, [&](std::size_t i) { return trial.value(source, i); });
  if (trial.size() == 1) trial.wrong_in(was_right, Seen::alone);
}

static void shift(Trial& trial, const RingShift& solution, std::size_t sends,
                  std::size_t receives, bool values = true) {
  move(
      trial, [&](auto out, auto in) { solution(trial.comm(), out, in); }, sends, receives,
      trial.comm().left(), values);
}

static void swap(Trial& trial, const Exchange& solution, std::size_t count, int peer,
                 bool values = true) {
  move(
      trial, [&](auto out, auto in) { solution(trial.comm(), peer, out, in); }, count, count,
      peer, values);
}

// Every rank meets every other rank once: in round r, the ranks of a pair add up to r, modulo
// the size. A rank that would meet itself stays out.
static void swap_with_all(Trial& trial, const Exchange& solution,
                          const std::vector<std::size_t>& counts, bool values = true) {
  for (const std::size_t count : counts) {
    for (int round = 0; round < trial.size(); ++round) {
      const int peer = (round - trial.rank() + trial.size()) % trial.size();
      if (peer != trial.rank()) swap(trial, solution, count, peer, values);
    }
  }
}

// 0 and N - 1, 1 and N - 2, ...: a middle rank stays out.
static void swap_in_pairs(Trial& trial, const Exchange& solution, std::size_t count) {
  const int peer = trial.size() - 1 - trial.rank();
  if (peer != trial.rank()) swap(trial, solution, count, peer);
}

const std::string kLargeHint =
    "send all out.size() elements in one message, and receive all in.size() elements in one";
const std::string kWaitsHint =
    "MPI_Isend and MPI_Irecv only start an operation. Until MPI_Wait (or MPI_Waitall) has "
    "returned, what is sent or received belongs to MPI, be it `out`, which the caller may "
    "overwrite, or a copy of yours, which is gone: wait before you return (MPI_Request_free "
    "does not wait)";

const std::string kLengthsHint =
    "send out.size() elements and receive in.size(). These numbers differ if the left rank's "
    "`out` is longer or shorter than yours; a rank with nothing to send still receives, and one"
    " with nothing to receive still sends";
const std::string kChangedHint =
    "`out` belongs to the caller, who may need it again: send it, and write only to `in`";

// Every second rank may receive first, and an odd number of ranks needs a third round.
constexpr std::uint64_t kMostRounds = 3;

// What arrives if `solution` sends `numbers` and receives `receives` numbers.
template <class Solution>
static std::vector<float> arrivals(const Solution& solution, const std::vector<float>& numbers,
                                   std::size_t receives) {
  const Guarded out = guarded(numbers);
  Guarded in(receives);
  solution(out.span(), in.span());
  return {in.span().begin(), in.span().end()};
}

Drawn drawn_ring_shift(const RingShift& solution) {
  const auto length = [](int rank) { return static_cast<std::size_t>(rank % 3 + 1); };
  return {.run =
              [=](const Communicator& comm, const std::vector<float>& numbers, int root) {
                return arrivals([&](auto out, auto in) { solution(comm, out, in); }, numbers,
                                root == 0 ? numbers.size() : length(comm.left()));
              },
          .runs =
              [=](int ranks) {
                SmallRun unequal{.lengths = {}, .root = 1};
                for (int rank = 0; rank < ranks; ++rank)
                  unequal.lengths.push_back(length(rank));
                return std::vector{equal_lengths(ranks, 4), unequal};
              },
          .rounds = kMostRounds};
}

Drawn drawn_exchange(const Exchange& solution) {
  return {.run =
              [=](const Communicator& comm, const std::vector<float>& numbers, int) {
                const int peer = comm.size() - 1 - comm.rank();
                if (peer == comm.rank()) return std::vector<float>();
                return arrivals([&](auto out, auto in) { solution(comm, peer, out, in); },
                                numbers, numbers.size());
              },
          .runs = [](int ranks) { return std::vector{equal_lengths(ranks, 4)}; },
          .rounds = 2};
}

std::vector<Check> checks_of_ring_shift(const RingShift& solution) {
  const std::vector<Check> checks{
      {"four-numbers", "every rank must receive the four numbers of the rank on its left",
       "every rank sends to comm.right(), so it receives from comm.left(); the send and the "
       "receive must use the same tag",
       [=](Trial& trial) { shift(trial, solution, 4, 4); }},
      {"guard-zones", "it must work for every length, and write nothing outside `in`",
       "the count of a message is a number of elements, not of bytes: with MPI_FLOAT, the type "
       "of a float, it is in.size()",
       [=](Trial& trial) {
         for (const std::size_t n : {1, 2, 5, 8}) shift(trial, solution, n, n, false);
       }},
      {"values", "every rank must receive its left neighbour's numbers, however many there are",
       "send all out.size() elements and receive in.size() elements; either number may be 0",
       [=](Trial& trial) {
         const std::size_t n = trial.n();
         for (const std::size_t count : {1UL, n - 1, n, n + 1, 97UL, 0UL}) {
           shift(trial, solution, count, count);
         }
       }},
      {"messages", "every rank must send one message, to its right",
       "a rank needs only its left neighbour's numbers, and in.size() already says how many "
       "arrive: send one message per rank, to comm.right(), and call no collective",
       [=](Trial& trial) {
         MustSend must;  // a single rank may copy, or send to itself
         if (trial.size() > 1) must = {trial.n(), 1, 800, {}, std::vector<int>{1}};
         expect_traffic(trial, "", must, [&] { shift(trial, solution, 200, 200); });
         expect_named(trial, [&] { shift(trial, solution, 8, 8); });
       }},
      {"at-once", "all ranks must send at about the same time, not one after the other",
       "if each rank waits for its left neighbour's message before it sends its own, the ring "
       "takes N times as long as one message: start the send without waiting for the receive",
       [=](Trial& trial) {
         const std::uint64_t rounds =
             traffic_in(trial, [&] { shift(trial, solution, 8, 8); }).rounds;
         trial.expect(rounds <= kMostRounds, "the messages follow each other in {} rounds",
                      rounds);
       }},
      {"waits", kWaitsMust, kWaitsHint,
       [=](Trial& trial) { expect_finished(trial, [&] { shift(trial, solution, 8, 8); }); }},
      {"lengths",
       "it must work if ranks send different numbers of elements",
       kLengthsHint,
       [=](Trial& trial) {
         for (const std::size_t base : {0, 3, 97}) {
           const std::size_t out = base + static_cast<std::size_t>(trial.rank() % 3);
           const std::size_t in = base + static_cast<std::size_t>(trial.comm().left() % 3);
           shift(trial, solution, out, in);
           shift(trial, solution, out, in, false);
         }
       },
       {{Seen::truncated, kLengthsHint}}},
      {"large",
       kLargeMust,
       kLargeHint,
       [=](Trial& trial) {
         MustSend must;
         if (trial.size() > 1) must = {.messages = trial.n()};
         for (const std::size_t more : {0UL, 3000UL, kLarge / 8}) {  // for some ranks
           const auto length = [=](int rank) {
             return more > 0 ? static_cast<std::size_t>(rank % 3) * more + 3 : kLarge;
           };
           expect_traffic(trial, more > 0 ? "with different lengths, " : "", must, [&] {
             shift(trial, solution, length(trial.rank()), length(trial.comm().left()));
           });
         }
       },
       {{Seen::truncated,
         "ranks may send different numbers of elements, and know only their own: what a rank "
         "receives, and in how many messages, must not follow from what it sends"}}},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "a rank waits for a message that nobody sends to it, or sends one that nobody "
        "receives: the destination is comm.right() and the source comm.left(), also for a rank "
        "with nothing to send"},
       {Seen::sends,
        "MPI_Send, and MPI_Wait for an MPI_Isend, may wait until the receiver is ready; small "
        "messages may work because MPI buffers them. Here each rank waits for its neighbour to "
        "receive, in a circle; a single rank waits for itself. Start both the send and the "
        "receive before you wait for either: use MPI_Sendrecv, or MPI_Isend and MPI_Irecv"},
       {Seen::receives,
        "all ranks wait for a message (MPI_Probe waits, too), so nobody has sent yet; a single "
        "rank waits for itself. Start both the send and the receive before you wait for either:"
        " use MPI_Sendrecv, or MPI_Isend and MPI_Irecv"},
       {Seen::alone,
        "with one rank, both neighbours are the rank itself, so `in` must become a copy of "
        "`out`: send to yourself, or copy"},
       {Seen::changed, kChangedHint},
       {Seen::collectives, kCollectiveHint}});
}

std::vector<Check> checks_of_exchange(const Exchange& solution) {
  const std::vector<Check> checks{
      {"four-numbers", "each partner must receive the other's four numbers",
       "`out` goes to `peer` and `in` comes from `peer`: use the argument as both destination "
       "and source, whatever its value, and the same tag on both sides",
       [=](Trial& trial) { swap_with_all(trial, solution, {4}); }},
      {"guard-zones", "it must work for every length, and write nothing outside `in`",
       "the count of a message is a number of elements, not of bytes: with MPI_FLOAT, the type "
       "of a float, it is in.size()",
       // Few enough for bytes that are counted as elements to stay within a guard zone.
       [=](Trial& trial) {
         swap_with_all(trial, solution, {1, 5, 8, 0}, false);
       }},
      {"values", "each partner must receive the other's numbers, however many there are",
       "send all out.size() elements and receive in.size() elements; both may be 0",
       [=](Trial& trial) {
         swap_with_all(trial, solution, {1, trial.n() + 1, 97, 499, 0});
       }},
      {"messages", "each partner must send one message, of out.size() floats",
       "send all out.size() elements in one message, and call no collective. in.size() already "
       "says how much arrives, so no length need be announced",
       [=](Trial& trial) {
         MustSend must{.messages = trial.n() / 2 * 2};
         must.bytes_per_rank = trial.size() == 1 ? 0 : 4000;
         expect_traffic(trial, "", must, [&] { swap_in_pairs(trial, solution, 1000); });
         expect_named(trial, [&] { swap_in_pairs(trial, solution, 8); });
       }},
      {"waits", kWaitsMust, kWaitsHint,
       [=](Trial& trial) {
         expect_finished(trial, [&] { swap_in_pairs(trial, solution, 8); });
       }},
      {"large", kLargeMust, kLargeHint,
       [=](Trial& trial) {
         expect_traffic(trial, "", {.messages = trial.n() / 2 * 2},
                        [&] { swap_in_pairs(trial, solution, kLarge); });
       }},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "a rank waits for a message that is never sent to it: `peer` is both destination and "
        "source, and both partners send and receive once, whatever their rank and the length"},
       {Seen::sends,
        "MPI_Send, and MPI_Wait for an MPI_Isend, may wait until the peer receives; small "
        "messages may work because MPI buffers them. Let one partner receive first (the one "
        "with the larger rank: both may be odd, or even), or send and receive at once: use "
        "MPI_Sendrecv, or MPI_Isend and MPI_Irecv"},
       {Seen::receives,
        "both partners wait for a message (MPI_Probe waits, too), so nobody has sent yet: one "
        "must send first, or both must send and receive at once, with MPI_Sendrecv, or "
        "MPI_Isend and MPI_Irecv"},
       {Seen::changed, kChangedHint},
       {Seen::collectives, kCollectiveHint}});
}

}  // namespace dist::exercise
