// Checks of lesson 2's two broadcasts: values from every root, messages, peers, bytes and
// rounds.
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/message_checks.hpp"

#include <bit>
#include <numeric>

namespace dist::exercise {

using Broadcast = std::function<void(const Communicator&, std::span<float>, int root)>;
// Calls visit(count, root) for every root and for lengths that MPI can buffer, so only the
// check "large" depends on buffering.
template <class Visit>
static void for_every_root(Trial& trial, const Visit& visit) {
  const std::size_t n = trial.n();
  for (int root = 0; root < trial.size(); ++root) {
    for (const std::size_t count : {n, 1UL, n - 1, n + 1, 97UL, 0UL}) {
      trial.call(fmt::format("root {}, {} elements", root, count));
      visit(count, root);
    }
  }
}

static std::string from_root(int root) {
  return fmt::format("root {}, ", root);
}

// Checks one broadcast: every rank has its own numbers beforehand and the root's afterwards.
static void check_broadcast(Trial& trial, const Broadcast& solution, std::size_t count,
                            int root) {
  Guarded data = tracers(trial, trial.rank(), count);
  solution(trial.comm(), data.span(), root);
  expect_values(trial, data.span(), from_root(root),
                [&](std::size_t i) { return trial.value(root, i); });
}

static Check values_check(const Broadcast& solution, const std::string& hint,
                          const std::string& hang_hint = "") {
  Check check{"values", "the root's numbers must reach all ranks, for every root and length",
              hint, [=](Trial& trial) {
                for_every_root(trial, [&](std::size_t count, int root) {
                  const bool was_right = trial.mistake().empty();
                  check_broadcast(trial, solution, count, root);
                  if (count < trial.n()) trial.wrong_in(was_right, Seen::fewer);
                });
              }};
  if (!hang_hint.empty()) check.hints[Seen::hang] = hang_hint;
  return check;
}

// A solution may read beyond the root's data, where there are other numbers.
static Check guard_check(const Broadcast& solution, const std::string& hint) {
  return {"guard-zones", "it must work for every length, and write nothing outside the data",
          hint, [=](Trial& trial) {
            for_every_root(trial, [&](std::size_t count, int root) {
              Guarded more = tracers(trial, trial.rank(), count + 1000);
              Guarded data = tracers(trial, trial.rank(), count);
              const bool gives = trial.rank() == root;
              const bool is_empty = count == 0;
              solution(trial.comm(),
                       gives && !is_empty ? more.span().first(count) : data.span(), root);
              expect_intact(trial, data, from_root(root));
            });
          }};
}

constexpr std::size_t kChunk = 100;  // elements of each rank's chunk

// Runs the solution on N chunks and expects this traffic. The result is not checked.
static void expect_traffic_from(int root, Trial& trial, const Broadcast& solution,
                                const MustSend& must) {
  std::vector<float> data(trial.n() * kChunk, 1.0F);
  expect_traffic(trial, from_root(root), must, [&] { solution(trial.comm(), data, root); });
}

static void expect_traffic_of(Trial& trial, const Broadcast& solution, const MustSend& must) {
  for (int root = 0; root < trial.size(); ++root) {
    expect_traffic_from(root, trial, solution, must);
  }
}

static Check collective_check(const Broadcast& solution) {
  return {"no-collective", "it must use single messages, not collectives",
          "use only single messages: MPI's own collectives would do the exercise for you",
          [=](Trial& trial) { expect_traffic_of(trial, solution, {}); }};
}

static Check waits_check(const Broadcast& solution) {
  return {"waits", kWaitsMust,
          "isend and irecv only start an operation: wait() for each before you return, because "
          "the caller continues to use the data",
          [=](Trial& trial) {
            std::vector<float> data(200, 1.0F);
            expect_finished(trial, [&] { solution(trial.comm(), data, 0); });
          }};
}

// The root sends all chunks but one in the scatter, and again in the ring; no other rank sends
// as much. Chunks differ in length by one at most.
static void expect_chunks(Trial& trial, const Broadcast& solution) {
  const std::size_t n = trial.n();
  for (const std::size_t count : {n * kChunk, n * kChunk + 1, n * kChunk + n - 1, n + 2}) {
    for (int root = 0; root < trial.size() && n > 1; ++root) {
      const std::uint64_t most = sizeof(float) * (2 * count - 2 * (count / n));
      const std::uint64_t least = sizeof(float) * (2 * count - 2 * ((count + n - 1) / n));
      std::vector<float> data(count, 1.0F);
      const std::uint64_t got =
          traffic_in(trial, [&] { solution(trial.comm(), data, root); }).bytes_per_rank;
      const bool nearly = got + 8 * n >= least && got <= most + 8 * n;
      trial.expect(nearly       ? Seen::uneven
                   : got > most ? Seen::too_many
                                : Seen::too_few,
                   got >= least && got <= most,
                   "root {}, {} elements: a rank sent {} bytes, expected {} to {}", root, count,
                   got, least, most);
      trial.counts()["most bytes sent by a rank"] = fmt::format("{} / {}", got, most);
    }
  }
}

static std::vector<float> broadcast_of(const Broadcast& solution, const Communicator& comm,
                                       const std::vector<float>& numbers, int root) {
  Guarded data = guarded(numbers);
  solution(comm, data.span(), root);
  return {data.span().begin(), data.span().end()};
}

Drawn drawn_tree_broadcast(const Broadcast& solution) {
  return {.run = std::bind_front(broadcast_of, solution),
          .runs =
              [](int ranks) {
                return std::vector{equal_lengths(ranks, 1, 0),
                                   equal_lengths(ranks, 1, ranks - 1),
                                   equal_lengths(ranks, 4, 1)};
              },
          .rounds = 0};
}

Drawn drawn_scatter_all_gather(const Broadcast& solution) {
  return {.run = std::bind_front(broadcast_of, solution),
          .runs =
              [](int ranks) {
                const auto n = static_cast<std::size_t>(ranks);
                return std::vector{equal_lengths(ranks, n, 0),
                                   equal_lengths(ranks, n, ranks - 1),
                                   equal_lengths(ranks, n + 1, 1)};
              },
          .chunks = true};
}

std::vector<Check> checks_of_tree_broadcast(const Broadcast& solution) {
  const std::vector<Check> checks{
      {"root-0", "rank 0's four numbers must reach all ranks",
       "write down for 3 and 4 ranks, round by round, until all have it: who sends, and to "
       "whom? A rank must have the data before it sends, and its partner must receive in the "
       "same round. If nobody receives a message, it went past the last rank, or to one that "
       "has the data",
       [=](Trial& trial) {
         check_broadcast(trial, solution, 4, 0);
         expect_named(trial, [&] { check_broadcast(trial, solution, 4, 0); });
       }},
      values_check(
          solution,
          "with another root, count from it: a rank's distance from the root, around the ring "
          "of ranks, decides whether it sends or receives. But send and recv take ranks: add "
          "the root again, modulo N, to what it was subtracted from. rank - root may be "
          "negative, and % keeps the sign",
          "if it works with root 0, look at the way from ranks to relative ranks and back: one "
          "subtracts the root, the other adds it, both modulo N. Relative ranks decide what a "
          "rank does; send and recv need ranks"),
      guard_check(solution,
                  "send and receive data.size() elements, directly from and into `data`"),
      collective_check(solution),
      {"messages", "N - 1 messages must be sent in total",
       "every rank but the root receives exactly once, and no other messages are needed",
       [=](Trial& trial) { expect_traffic_of(trial, solution, {.messages = trial.n() - 1}); }},
      {"rounds", "it must take ceil(log2 N) rounds",
       "every rank that has the data helps, so the number of ranks that have it doubles in "
       "every round. If the root sends to every rank, or the ranks form a chain, the broadcast "
       "takes N - 1 rounds. Also, send first to the rank that has the most ranks to serve",
       [=](Trial& trial) {
         expect_traffic_of(trial, solution, {.rounds = std::bit_width(trial.n() - 1)});
       }},
      waits_check(solution),
      {"large",
       kLargeMust,
       "send and receive all data.size() elements",
       [=](Trial& trial) {
         expect_traffic(trial, "",
                        {.messages = trial.n() - 1, .rounds = std::bit_width(trial.n() - 1)},
                        [&] { check_broadcast(trial, solution, kLarge, trial.size() - 1); });
       },
       {{Seen::too_many,
         "the tree is the same, however long the data is: N - 1 messages in ceil(log2 N) "
         "rounds"},
        {Seen::sends,
         "send may wait until the receiver is ready: if two ranks both start by sending to "
         "each other, both wait forever"}}},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "a rank waits for a message that is never sent to it: it disagrees with the sender "
        "about the tree. At distance d, vranks d to 2d - 1 receive from vrank - d, and only at "
        "that distance; vranks below d send to vrank + d, if it exists. And who has received "
        "does not return, but sends in all later rounds"},
       {Seen::collectives, kCollectiveHint}});
}

std::vector<Check> checks_of_scatter_all_gather(const Broadcast& solution) {
  const std::vector<Check> checks{
      {"root-0", "rank 0's numbers must reach all ranks, with one element per chunk",
       "after the scatter, rank r has chunk r. In step s = 0, 1, ... it sends chunk r + s to "
       "the left (after step 0, the chunk that it received in the previous step) and receives "
       "chunk r + 1 + s from the right",
       [=](Trial& trial) {
         check_broadcast(trial, solution, trial.n(), 0);
         expect_named(trial, [&] { check_broadcast(trial, solution, trial.n(), 0); });
       }},
      {"other-roots", "every rank can be the root, with one element per chunk",
       "the root is not always rank 0, and it already has its own chunk. Whichever rank is the "
       "root, every rank must number the chunks alike: those that the scatter sends are those "
       "that the ring starts from",
       [=](Trial& trial) {
         for (int root = 1; root < trial.size(); ++root) {
           trial.call(fmt::format("root {}, {} elements", root, trial.n()));
           check_broadcast(trial, solution, trial.n(), root);
         }
       }},
      guard_check(
          solution,
          "if N does not divide the number of elements, chunks differ in length by one, and "
          "some may be empty: call chunk_range for each chunk that you send or receive"),
      values_check(
          solution,
          "if N does not divide the number of elements, chunks differ in length by one: call "
          "chunk_range for each chunk instead of computing with length / N"),
      collective_check(solution),
      {"messages", "the root must send 2 (N - 1) messages, every other rank N - 1",
       "the root sends N - 1 messages in the scatter. In the ring, every rank sends one "
       "message per step, for N - 1 steps, after which every rank has every chunk",
       [=](Trial& trial) {
         const std::uint64_t each = trial.n() - 1;  // of the root in the scatter, then of all
         expect_traffic_of(
             trial, solution,
             {.messages = each + each * (each + 1), .messages_per_rank = 2 * each});
       }},
      {"leftward", "every rank except the root must send only to its left neighbour",
       "send to comm.left() and receive from comm.right(); only the root sends to other ranks, "
       "in the scatter",
       // Examines rank 0, which takes every place in the ring as the root changes.
       [=](Trial& trial) {
         if (trial.size() == 1) return;
         std::vector<int> all(trial.n() - 1);
         std::iota(all.begin(), all.end(), 1);
         expect_traffic_from(0, trial, solution, {.peers_of_rank_0 = all});
         for (int root = 1; root < trial.size(); ++root) {
           expect_traffic_from(root, trial, solution,
                               {.peers_of_rank_0 = std::vector{trial.size() - 1}});
         }
       }},
      {"bytes",
       "every message must contain exactly one chunk",
       "the root sends 2 (N - 1) / N of the tensor, every other rank half of that. In the "
       "scatter, send each rank its own chunk, not the whole tensor. In the ring, send only "
       "the chunk that has just arrived, not everything that you have",
       [=](Trial& trial) { expect_chunks(trial, solution); },
       {{Seen::uneven,
         "these chunks are not chunk_range's: if N does not divide the length, the first "
         "chunks are one longer than the others"}}},
      waits_check(solution),
      {"large", kLargeMust, "a message must contain all elements of its chunk",
       [=](Trial& trial) {
         expect_traffic(trial, "", {.messages_per_rank = 2 * (trial.n() - 1)}, [&] {
           check_broadcast(trial, solution, kLarge + trial.n() + 1, trial.size() - 1);
         });
       }},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "a rank waits for a message that is never sent to it. In the scatter, the root sends "
        "to every other rank, and each of those receives once, from the root. In the ring, "
        "every rank, also the root, sends to its left and receives from its right in every "
        "step"},
       {Seen::sends,
        "a plain send may wait until the receiver is ready; small chunks may work because MPI "
        "buffers them. In a ring where every rank sends first, all ranks wait. Use send_recv, "
        "which sends and receives at the same time"},
       {Seen::receives,
        "all ranks of the ring are in a receive, so nobody has sent. Use send_recv, which "
        "sends and receives at the same time"},
       {Seen::collectives, kCollectiveHint}});
}

}  // namespace dist::exercise
