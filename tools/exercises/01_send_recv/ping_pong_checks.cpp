// Checks of the ping-pong: messages, bytes, who answers when, and the returned time, compared
// with a measurement from outside.
#include "tools/exercises/message_checks.hpp"

#include <chrono>
#include <thread>

namespace dist::exercise {
namespace {

using PingPong = std::function<double(const Communicator&, std::size_t, int)>;

struct Game {
  std::size_t bytes;
  int repeats;
};

const std::vector<Game> kGames{{4, 1}, {0, 2}, {1001, 5}};

Traffic traffic_of(const Trial& trial, const PingPong& solution, const Game& game) {
  return traffic_in(trial, [&] { solution(trial.comm(), game.bytes, game.repeats); });
}

// Rank 0 may send a message only after the previous one was answered, and rank 1 may answer
// only after the message has arrived. Counting rounds would not show this: sending all messages
// and then all answers takes the same number of rounds.
void expect_turns(Trial& trial, const PingPong& solution, const Game& game) {
  const Traffic traffic = traffic_of(trial, solution, game);
  if (trial.rank() > 1 || traffic.messages == 0) return;
  const std::uint64_t must = trial.rank() == 0 ? 1 : 0;
  const std::uint64_t ahead = traffic.most_ahead[static_cast<std::size_t>(trial.rank())];
  trial.expect(
      ahead <= must,
      "{} repeats: this rank had sent {} more messages than it had received, expected {}",
      game.repeats, ahead, must);
}

// Makes rank 1 so late that rank 0's first message has been waiting for a while. A fixed delay
// alone would not ensure this, because rank 0 may be late itself.
void come_late(const Communicator& comm, std::chrono::milliseconds delay) {
  for (int found = 0; found == 0;) {
    MPI_CHECK(MPI_Iprobe(0, MPI_ANY_TAG, comm.get(), &found, MPI_STATUS_IGNORE));
    if (found == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(delay);
}

// The duration of the whole exchange according to the returned time, divided by its duration as
// measured from outside: 1 or a little less. With a `delay`, rank 1 arrives late. Called on all
// ranks; only rank 0 returns the result, and the others return 1.
double share_of_time(const Trial& trial, const PingPong& solution, int repeats,
                     std::chrono::milliseconds delay = {}) {
  using Clock = std::chrono::steady_clock;
  {
    const CallScope over(kOver);
    trial.comm().barrier();
  }
  if (trial.rank() == 1 && delay.count() > 0) come_late(trial.comm(), delay);
  const auto begin = Clock::now();
  const double one_way = solution(trial.comm(), 4000, repeats);
  const double around = std::chrono::duration<double>(Clock::now() - begin).count();
  return trial.rank() == 0 ? one_way * 2 * repeats / around : 1.0;
}

constexpr int kRepeats = 100;
constexpr int kFew = 3;

// A time that is too long is wrong however busy the machine is, because the exchange cannot
// take longer than the call. So one such try is enough to fail the check. We make several
// tries, in case a pause within the call, but outside the exchange, hides the mistake.
Check too_long(const PingPong& solution, const std::string& name, const std::string& must,
               const std::string& hint, double most, std::map<Seen, std::string> hints = {}) {
  return {name, must, hint,
          [=](Trial& trial) {
            if (trial.size() < 2) return;
            for (int attempt = 0; attempt < 3; ++attempt) {
              const double share = share_of_time(trial, solution, kRepeats);
              // Multiplied by repeats where it had to be divided: in both is kRepeats squared.
              const double squared = share / (kRepeats * kRepeats);
              trial.expect(
                  squared > 0.3 && squared < 3 ? Seen::scaled : Seen::something_else,
                  share <= most,
                  "at your time per message, {} round trips take {:.4g} times as long as the "
                  "call",
                  kRepeats, share);
            }
          },
          std::move(hints)};
}

// A busy machine may pause between our clock reading and the solution's, but such a pause
// rarely lasts for most of the time that rank 0 waits for rank 1, and never on every try. That
// wait reveals a clock that stops when MPI_Send returns; without the wait, the duration of a
// send depends on what else is running.
Check too_short(const PingPong& solution) {
  return {
      "whole-time", "the time must cover the whole exchange",
      "start the clock before the first send and stop it after the last answer. When a send "
      "has returned, MPI may have done no more than copy the data. Divide by 2 * repeats only "
      "once, and use all round trips: the mean is asked for, not the median or the shortest",
      [=](Trial& trial) {
        if (trial.size() < 2) return;
        const auto late = std::chrono::milliseconds(80);
        double most = 0;
        for (int attempt = 0; attempt < 3; ++attempt) {
          most = std::max(most, share_of_time(trial, solution, kFew, late));
        }
        trial.expect(most >= 0.6,
                     "rank 1 was late on purpose, so the call took long; at your time per "
                     "message, {} round trips would take {:.2g} of that time",
                     kFew, most);
      }};
}

}  // namespace

Drawn drawn_ping_pong(const PingPong& solution) {
  return {.run =
              [=](const Communicator& comm, const std::vector<float>&, int) {
                solution(comm, /*bytes=*/4, /*repeats=*/2);
                return std::vector<float>();
              },
          .runs = [](int ranks) { return std::vector{equal_lengths(ranks, 0)}; },
          .rounds = 0,
          .in_order = true};
}

std::vector<Check> checks_of_ping_pong(const PingPong& solution) {
  const std::vector<Check> checks{
      {"two-ranks",
       "ranks 0 and 1 must play, and rank 0 must return a time; all others return 0",
       "if rank 0 is alone, and on ranks above 1, return 0 before the first message. Rank 1 "
       "answers, and also returns 0",
       [=](Trial& trial) {
         double result = -1;
         const Traffic traffic =
             traffic_in(trial, [&] { result = solution(trial.comm(), 100, 2); });
         const bool times = trial.rank() == 0 && trial.size() > 1;
         trial.expect(times && result == 0 ? Seen::zero : Seen::something_else,
                      times ? result > 0 : result == 0, "returned {}, expected {}", result,
                      times ? "a number above 0" : "0");
         for (const int peer : traffic.peers) {
           trial.expect(Seen::elsewhere, peer == 1, "rank 0 sends to rank {}, not to rank 1",
                        peer);
         }
       },
       {{Seen::zero,
         "whole seconds, or a whole number divided by a larger one, are 0: use "
         "std::chrono::duration<double>(end - begin).count()"},
        {Seen::elsewhere, "rank 0 plays with rank 1, however many ranks there are"},
        {Seen::hang,
         "look at the ranks that wait. One above 1 must not play at all: `else if (comm.rank() "
         "== 1)`. Otherwise, rank 1 must receive first and then answer, and both must play the "
         "same number of rounds"}}},
      {"messages", "`repeats` messages must be sent in each direction",
       "send exactly `repeats` messages and answer each one: no warm-up message and no "
       "barrier. Ranks above 1 send nothing",
       [=](Trial& trial) {
         for (const Game& game : kGames) {
           const Traffic traffic = traffic_of(trial, solution, game);
           const auto each = static_cast<std::uint64_t>(trial.size() > 1 ? game.repeats : 0);
           trial.expect(traffic.messages == 2 * each && traffic.messages_per_rank == each,
                        "{} repeats of {} bytes: {} messages, expected {} in each direction",
                        game.repeats, game.bytes, traffic.messages, each);
           trial.expect(traffic.collectives == 0, "an MPI collective was called");
         }
       }},
      {"bytes",
       "every message must have `bytes` bytes",
       "both the messages and the answers have `bytes` bytes: send this many chars",
       [=](Trial& trial) {
         for (const Game& game : kGames) {
           const Traffic traffic = traffic_of(trial, solution, game);
           const std::uint64_t must =
               trial.size() > 1 ? static_cast<std::uint64_t>(game.repeats) * game.bytes : 0;
           const Seen otherwise = traffic.bytes_per_rank == 0          ? Seen::too_few
                                  : traffic.bytes_per_rank == 4 * must ? Seen::a_quarter
                                                                       : Seen::something_else;
           trial.expect(otherwise, traffic.bytes_per_rank == must,
                        "{} messages of {} bytes: a rank sent {} bytes, expected {}",
                        game.repeats, game.bytes, traffic.bytes_per_rank, must);
         }
       },
       {{Seen::too_few,
         "no bytes were sent: a vector gets its elements from its length, data(bytes), and not "
         "from reserve"},
        {Seen::a_quarter,
         "`bytes` is a size in bytes: send this many chars, not this many floats"}}},
      {"there-and-back", "the answer must be sent after the message has arrived",
       "only one message may be under way at a time: rank 0 sends and then receives, and rank "
       "1 receives and then sends. Do not let messages follow or cross each other",
       [=](Trial& trial) {
         for (const Game& game : kGames) expect_turns(trial, solution, game);
       }},
      {"waits", kWaitsMust,
       "the clock must not stop before MPI_Wait has returned, for sends and for receives",
       [=](Trial& trial) { expect_finished(trial, [&] { solution(trial.comm(), 100, 2); }); }},
      {"exact", "the time must not be rounded to whole microseconds",
       "a message takes about a microsecond here: divide as double, with "
       "std::chrono::duration<double>, or by 2.0 * repeats. Integers are rounded down",
       [=](Trial& trial) {
         bool whole = trial.size() > 1 && trial.rank() == 0;
         for (int attempt = 0; attempt < 5; ++attempt) {
           const double us = 1e6 * solution(trial.comm(), 4, 7);
           whole = whole && std::abs(us - std::round(us)) < 1e-6;
         }
         trial.expect(!whole, "five calls returned whole numbers of microseconds");
       }},
      too_long(solution, "seconds", "the time must be in seconds",
               "return seconds, not microseconds or milliseconds: "
               "std::chrono::duration<double>(end - begin).count()",
               400,
               {{Seen::scaled,
                 "your time grows with `repeats`: a / 2 * repeats is (a / 2) * repeats. "
                 "Divide by (2 * repeats), in parentheses"}}),
      too_long(
          solution, "per-message", "the time must be for one message, not for all messages",
          "the clock covered `repeats` messages in each direction: divide by 2 * repeats", 10),
      too_short(solution),
      too_long(solution, "one-way", "the time must be for one way, not for a round trip",
               "a round trip is two messages: divide by 2 * repeats, not by repeats", 1.25),
      {"large",
       kLargeMust,
       "the buffer must hold `bytes` bytes on both ranks",
       [=](Trial& trial) { solution(trial.comm(), kLarge * sizeof(float), 1); },
       {{Seen::short_message, "the buffer must hold `bytes` bytes on both ranks"}}},
  };
  return with_hints(
      checks,
      {{Seen::hang,
        "rank 1 must receive first and then answer; rank 0 must send first and then receive. "
        "Both must play the same number of rounds"},
       {Seen::sends, "both ranks send first. Rank 1 must receive first, and then answer"},
       {Seen::receives,
        "both ranks receive first, so nobody has sent. Rank 0 must begin with a send"},
       {Seen::collectives, kCollectiveHint}});
}

}  // namespace dist::exercise
