// The ping-pong: messages and bytes, who answers when, and what the returned time stands for,
// measured again from outside.
#include "common/check.hpp"
#include "tests/exercises/01_send_recv/checks.hpp"
#include "tests/support/counted.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace dist::exercise {
namespace {

constexpr std::size_t kLarge = (1 << 20) * sizeof(float);

struct Game {
  std::size_t bytes;
  int repeats;
};

const std::vector<Game> kGames{{4, 1}, {0, 2}, {1001, 5}};

const std::string kHangHint =
    "the report says where each rank waits. Rank 1 receives first and then answers, rank 0 "
    "sends first and then receives; both name the same tag, and play the same number of times";

Traffic traffic_of(const Trial& trial, const PingPong& solution, const Game& game) {
  return counted(trial.comm(), [&] { solution(trial.comm(), game.bytes, game.repeats); });
}

// Rank 0's next message leaves after its last one has been answered, rank 1's answer after the
// message that it answers. Rounds do not show this: many messages and then as many answers
// take as many.
void expect_turns(Trial& trial, const PingPong& solution, const Game& game) {
  const Traffic traffic = traffic_of(trial, solution, game);
  const auto rank = static_cast<std::size_t>(trial.rank());
  if (trial.rank() > 1 || traffic.messages == 0) return;
  const std::uint64_t must = trial.rank() == 0 ? 1 : 0;
  const std::uint64_t ahead = traffic.most_ahead[rank];
  trial.expect(ahead <= must, [&] {
    return fmt::format("{} repeats: has sent {} more messages than have come, must be {}",
                       game.repeats, ahead, must);
  });
}

// Rank 1 comes so late that rank 0's first message has lain there for a while. From the clock
// alone rank 0 might have been late itself.
void come_late(const Communicator& comm, std::chrono::milliseconds delay) {
  for (int found = 0; found == 0;) {
    MPI_CHECK(MPI_Iprobe(0, MPI_ANY_TAG, comm.get(), &found, MPI_STATUS_IGNORE));
    if (found == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(delay);
}

// The seconds that the returned time makes of the whole exchange, as a share of those that it
// took, seen from outside: 1 or a little less. With a `delay`, rank 1 comes late. Called on all
// ranks; the result is rank 0's, on the others 1.
double share_of_time(const Trial& trial, const PingPong& solution, int repeats,
                     std::chrono::milliseconds delay = {}) {
  using Clock = std::chrono::steady_clock;
  trial.comm().barrier();
  if (trial.rank() == 1 && delay.count() > 0) come_late(trial.comm(), delay);
  const auto begin = Clock::now();
  const double one_way = solution(trial.comm(), 4000, repeats);
  const double around = std::chrono::duration<double>(Clock::now() - begin).count();
  return trial.rank() == 0 ? one_way * 2 * repeats / around : 1.0;
}

constexpr int kRepeats = 100;

// What is too much is so however busy the machine is: the exchange cannot take longer than the
// call. So one try is enough, and several are made for those that a pause within the call, but
// outside of the exchange, would hide.
Check too_long(const PingPong& solution, const std::string& name, const std::string& must,
               const std::string& hint, double most) {
  return {name, must, hint,
          [=](Trial& trial) {
            if (trial.size() < 2) return;
            for (int attempt = 0; attempt < 3; ++attempt) {
              const double share = share_of_time(trial, solution, kRepeats);
              trial.expect(share <= most, [&] {
                return fmt::format(
                    "{} times there and back would take {:.4g} times as long as the call did",
                    kRepeats, share);
              });
            }
          },
          kHangHint};
}

// The other way round the machine may take its time between our clock and the solution's, but
// hardly much of the time for which rank 1 lets the other wait, and not on every try. That wait
// is there for a clock that stops when MPI_Send returns: alone, how long a send takes depends
// on who else wants the core.
Check too_short(const PingPong& solution) {
  return {
      "whole-time", "the time is that of the whole exchange",
      "start the clock before the first send and stop it after the last answer: that a send "
      "has returned says only that MPI has a copy. Divide by 2 * repeats, once",
      [=](Trial& trial) {
        if (trial.size() < 2) return;
        double most = 0;
        for (int attempt = 0; attempt < 3; ++attempt) {
          most =
              std::max(most, share_of_time(trial, solution, 1, std::chrono::milliseconds(80)));
        }
        trial.expect(most >= 0.6, [&] {
          return fmt::format("there and back would take {:.2g} times as long as the call did",
                             most);
        });
      },
      kHangHint};
}

}  // namespace

std::vector<Check> checks_of_ping_pong(const PingPong& solution) {
  return {
      {"two-ranks", "only rank 0 returns a time, and only ranks 0 and 1 play",
       "where rank 0 is alone, and on ranks above 1, return 0 before the first message; rank 1 "
       "answers, and returns 0, too",
       [=](Trial& trial) {
         double result = -1;
         const Traffic traffic =
             counted(trial.comm(), [&] { result = solution(trial.comm(), 100, 2); });
         const bool times = trial.rank() == 0 && trial.size() > 1;
         trial.expect(times ? result > 0 : result == 0, [&] {
           return fmt::format("returned {}, must be {}", result, times ? "above 0" : "0");
         });
         trial.expect(traffic.peers.size() <= (trial.size() > 1 ? 1U : 0U), [&] {
           return fmt::format("rank 0 sent to {} ranks", traffic.peers.size());
         });
       },
       kHangHint},
      {"messages", "there are `repeats` messages there and as many back",
       "exactly so many: no message to warm up, no barrier, an answer for each; ranks above 1 "
       "send nothing",
       [=](Trial& trial) {
         for (const Game& game : kGames) {
           const Traffic traffic = traffic_of(trial, solution, game);
           const auto each = static_cast<std::uint64_t>(trial.size() > 1 ? game.repeats : 0);
           trial.expect(traffic.messages == 2 * each && traffic.messages_per_rank == each, [&] {
             return fmt::format("{} repeats: {} messages, must be {} there and {} back",
                                game.repeats, traffic.messages, each, each);
           });
           trial.expect(traffic.collectives == 0, [] { return "a collective was called"; });
         }
       },
       kHangHint},
      {"bytes", "every message has `bytes` bytes",
       "`bytes` is a size in bytes: send so many char, not so many floats",
       [=](Trial& trial) {
         for (const Game& game : kGames) {
           const Traffic traffic = traffic_of(trial, solution, game);
           const std::uint64_t must =
               trial.size() > 1 ? static_cast<std::uint64_t>(game.repeats) * game.bytes : 0;
           trial.expect(traffic.bytes_per_rank == must, [&] {
             return fmt::format("{} messages of {} bytes: a rank sent {} bytes, must be {}",
                                game.repeats, game.bytes, traffic.bytes_per_rank, must);
           });
         }
       },
       kHangHint},
      {"there-and-back", "the answer leaves when the message has come",
       "one message is under way at a time, in turns: rank 0 sends and then receives, rank 1 "
       "receives and then sends. Messages that follow or meet each other are another "
       "measurement",
       [=](Trial& trial) {
         for (const Game& game : kGames) {
           expect_turns(trial, solution, game);
         }
       },
       kHangHint},
      {"waits", "nothing is under way any more when the call returns",
       "the clock must not stop before MPI_Wait has come back, for sends and for receives",
       [=](Trial& trial) {
         const Traffic traffic = traffic_of(trial, solution, {100, 2});
         trial.expect(traffic.unfinished == 0, [&] {
           return fmt::format("{} sends or receives were started and not waited for",
                              traffic.unfinished);
         });
       },
       kHangHint},
      too_long(solution, "seconds", "the time is in seconds",
               "seconds, not micro- or milliseconds: "
               "std::chrono::duration<double>(end - begin).count()",
               400),
      too_long(solution, "per-message", "the time is that of one message, not of all",
               "the clock saw `repeats` messages there and as many back: divide by 2 * repeats",
               10),
      too_long(solution, "one-way", "the time is that of one way, not of there and back",
               "there and back are two messages: divide by 2 * repeats, not by repeats", 1.25),
      too_short(solution),
      {"large", "it works for messages that MPI does not copy",
       "the buffer must hold `bytes` bytes on both ranks",
       [=](Trial& trial) { solution(trial.comm(), kLarge, 1); }, kHangHint},
  };
}

}  // namespace dist::exercise
