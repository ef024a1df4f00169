// What this file adds: the eager limit, the size up to which MPI_Send returns before the
// receive is called. MPI does not report this limit, but a program can measure it without
// hanging and without timing anything.
// Look at: is_sent_eagerly.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace dist {

constexpr std::size_t kLargestEagerTrial = std::size_t{16} << 20;

struct EagerLimit {
  int receiver = 0;  // rank 0 sends
  bool same_host = true;
  // The bytes of the largest message that is sent before its receive is called; 0 if none is.
  std::size_t bytes = 0;
  bool found = false;  // false if even kLargestEagerTrial bytes were sent early
};

inline constexpr int kTrialTag = 1;  // the message whose size is being tried
inline constexpr int kTalkTag = 2;   // the two ranks' messages about the trial

// [7] Called on rank 0, which sends, and on the receiver. Returns, on both, whether MPI_Send,
// given a message of `bytes` bytes, would return before the receive is called.
//
//   rank 0                              receiver
//   isend(trial) ------------- ... ...
//   send(word) -----------------------> recv(word)    twice: the receiver's MPI has made
//   recv(word) <----------------------- send(word)    progress, but no call has asked for the
//   is the isend done?                                trial
//   send(answer) ---------------------> recv(answer)
//                         ... ... ----> recv(trial)
//
// By the time the answer to a *later* message arrives, everything that can happen to the trial
// without a receive has happened. If the isend is still not done, it is waiting for the
// receive, and MPI_Send would wait as well. (The second round allows for MPI's internal
// notices, such as "this piece of shared memory is free again", which may take a different
// route from messages.)
inline bool is_sent_eagerly(const Communicator& comm, int receiver, std::size_t bytes) {
  constexpr int kRounds = 2;
  std::vector<char> trial(bytes, 'x');
  std::array<char, 1> word{};
  if (comm.rank() == 0) {
    Request sending = isend<char>(comm, trial, receiver, kTrialTag);
    for (int round = 0; round < kRounds; ++round) {
      send<char>(comm, word, receiver, kTalkTag);
      recv<char>(comm, word, receiver, kTalkTag);
    }
    word[0] = sending.is_done() ? 1 : 0;
    send<char>(comm, word, receiver, kTalkTag);
    sending.wait();
  } else {
    for (int round = 0; round < kRounds; ++round) {
      recv<char>(comm, word, 0, kTalkTag);
      send<char>(comm, word, 0, kTalkTag);
    }
    recv<char>(comm, word, 0, kTalkTag);
    recv<char>(comm, trial, 0, kTrialTag);
  }
  return word[0] != 0;
}

// Called on rank 0 and on the receiver, which try the same sizes.
inline void find_limit(const Communicator& comm, EagerLimit& limit) {
  std::size_t too_large = 1;  // doubled until a message is not sent early
  while (too_large <= kLargestEagerTrial && is_sent_eagerly(comm, limit.receiver, too_large)) {
    limit.bytes = too_large;
    too_large *= 2;
  }
  limit.found = too_large <= kLargestEagerTrial;
  while (limit.found && too_large - limit.bytes > 1) {
    const std::size_t middle = limit.bytes + (too_large - limit.bytes) / 2;
    (is_sent_eagerly(comm, limit.receiver, middle) ? limit.bytes : too_large) = middle;
  }
}

// Returns the limits for messages from rank 0 to the next rank on its host and to the first
// rank on a different host, if these ranks exist. Shared memory and the network have different
// limits. Called on all ranks; all get the same result.
inline std::vector<EagerLimit> find_eager_limits(const Communicator& comm) {
  // Each rank's host, by its first rank.
  const auto hosts = comm.all_gather(comm.split_by_host().all_gather(comm.rank())[0]);
  std::vector<EagerLimit> limits;
  for (const bool same_host : {true, false}) {
    const auto is_wanted = [&](int host) { return (host == 0) == same_host; };
    const auto found = std::find_if(hosts.begin() + 1, hosts.end(), is_wanted);
    if (found == hosts.end()) continue;
    const auto receiver = static_cast<int>(found - hosts.begin());
    EagerLimit limit{.receiver = receiver, .same_host = same_host};
    if (comm.rank() == 0 || comm.rank() == receiver) find_limit(comm, limit);
    MPI_CHECK(MPI_Bcast(&limit, sizeof limit, MPI_CHAR, 0, comm.get()));
    limits.push_back(limit);
  }
  return limits;
}

}  // namespace dist
