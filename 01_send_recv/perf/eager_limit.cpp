// Look at: is_sent_eagerly, which finds out, without blocking, whether a send would block.
#include "01_send_recv/perf/eager_limit.hpp"

#include "01_send_recv/send_recv.hpp"

#include <mpi.h>

#include <array>
#include <cstdint>

namespace dist {
namespace {

constexpr int kTrialTag = 1;  // the message whose size is being tried
constexpr int kTalkTag = 2;   // the two ranks' messages about the trial
constexpr int kRounds = 2;

void say(const Communicator& comm, int peer, std::int64_t word = 0) {
  send<std::int64_t>(comm, std::span<const std::int64_t>(&word, 1), peer, kTalkTag);
}

std::int64_t hear(const Communicator& comm, int peer) {
  std::int64_t word = 0;
  recv<std::int64_t>(comm, std::span<std::int64_t>(&word, 1), peer, kTalkTag);
  return word;
}

// [7] Returns whether MPI_Send, given a message of `bytes` bytes, would return before the
// receive is called.
//
//   sender                              receiver
//   isend(trial) ------------- ... ...
//   say ------------------------------> hear       twice: the receiver's MPI has made progress,
//   hear <----------------------------- say        but no call has asked for the trial
//   is the isend done?
//   say ------------------------------> hear
//                         ... ... ----> recv(trial)
//
// By the time the answer to a *later* message arrives, everything that can happen to the trial
// without a receive has happened. If the isend is still not done, it is waiting for the
// receive, and MPI_Send would wait as well. (The second round allows for MPI's internal
// notices, such as "this piece of shared memory is free again", which may take a different
// route from messages.)
bool is_sent_eagerly(const Communicator& comm, int receiver, std::size_t bytes) {
  const std::vector<char> trial(bytes, 'x');
  say(comm, receiver, static_cast<std::int64_t>(bytes));
  Request sending = isend<char>(comm, trial, receiver, kTrialTag);
  for (int round = 0; round < kRounds; ++round) {
    say(comm, receiver);
    hear(comm, receiver);
  }
  const bool done = sending.is_done();
  say(comm, receiver);
  sending.wait();
  return done;
}

constexpr std::int64_t kNoMore = -1;

void receive_trials(const Communicator& comm) {
  for (std::int64_t bytes = hear(comm, 0); bytes != kNoMore; bytes = hear(comm, 0)) {
    for (int round = 0; round < kRounds; ++round) {
      hear(comm, 0);
      say(comm, 0);
    }
    hear(comm, 0);
    std::vector<char> trial(static_cast<std::size_t>(bytes));
    recv<char>(comm, trial, 0, kTrialTag);
  }
}

void send_trials(const Communicator& comm, EagerLimit& limit) {
  std::size_t eager = 0;      // the largest size sent early so far
  std::size_t too_large = 1;  // doubled until a message is not sent early
  while (too_large <= kLargestEagerTrial && is_sent_eagerly(comm, limit.receiver, too_large)) {
    eager = too_large;
    too_large *= 2;
  }
  limit.found = too_large <= kLargestEagerTrial;
  while (limit.found && too_large - eager > 1) {
    const std::size_t middle = eager + (too_large - eager) / 2;
    (is_sent_eagerly(comm, limit.receiver, middle) ? eager : too_large) = middle;
  }
  limit.bytes = eager;
  say(comm, limit.receiver, kNoMore);
}

// Pairs rank 0 with the next rank on its host and with the first rank on a different host.
std::vector<EagerLimit> choose_pairs(const Communicator& comm) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
  int length = 0;
  MPI_CHECK(MPI_Get_processor_name(host.data(), &length));
  std::array<char, MPI_MAX_PROCESSOR_NAME> host_0 = host;
  MPI_CHECK(MPI_Bcast(host_0.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, comm.get()));
  std::array<int, 2> first{comm.size(), comm.size()};  // on rank 0's host, on another
  if (comm.rank() > 0) first[host == host_0 ? 0 : 1] = comm.rank();
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, first.data(), 2, MPI_INT, MPI_MIN, comm.get()));
  std::vector<EagerLimit> pairs;
  for (const bool same : {true, false}) {
    const int peer = first[same ? 0 : 1];
    if (peer < comm.size()) pairs.push_back({.receiver = peer, .same_host = same});
  }
  return pairs;
}

}  // namespace

std::vector<EagerLimit> find_eager_limits(const Communicator& comm) {
  std::vector<EagerLimit> limits = choose_pairs(comm);
  for (EagerLimit& limit : limits) {
    if (comm.rank() == 0) send_trials(comm, limit);
    if (comm.rank() == limit.receiver) receive_trials(comm);
    MPI_CHECK(MPI_Bcast(&limit, sizeof limit, MPI_CHAR, 0, comm.get()));
  }
  return limits;
}

}  // namespace dist
