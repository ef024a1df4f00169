// Look at: is_sent_eagerly, which finds out, without blocking, whether a send would block.
#include "01_send_recv/show/eager_limit.hpp"

#include "01_send_recv/send_recv.hpp"
#include "common/console.hpp"

#include <mpi.h>

#include <fmt/core.h>

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

void receive_trials(const Communicator& comm, int sender) {
  for (std::int64_t bytes = hear(comm, sender); bytes != kNoMore; bytes = hear(comm, sender)) {
    for (int round = 0; round < kRounds; ++round) {
      hear(comm, sender);
      say(comm, sender);
    }
    hear(comm, sender);
    std::vector<char> trial(static_cast<std::size_t>(bytes));
    recv<char>(comm, trial, sender, kTrialTag);
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

// Pairs rank 0 with one rank on its own host and one on a different host.
std::vector<EagerLimit> choose_pairs(const Communicator& comm) {
  std::string host(MPI_MAX_PROCESSOR_NAME, '\0');
  int length = 0;
  MPI_CHECK(MPI_Get_processor_name(host.data(), &length));
  host.resize(static_cast<std::size_t>(length));
  const std::vector<std::string> hosts = gather_text(comm, host);  // empty except on rank 0
  std::array<int, 2> peers{0, 0};  // on rank 0's host, on another; 0 if there is none
  for (int rank = comm.rank() == 0 ? comm.size() - 1 : 0; rank > 0; --rank) {
    peers[hosts[static_cast<std::size_t>(rank)] == host ? 0 : 1] = rank;
  }
  MPI_CHECK(MPI_Bcast(peers.data(), 2, MPI_INT, 0, comm.get()));
  std::vector<EagerLimit> pairs;
  for (const bool same : {true, false}) {
    const int peer = peers[same ? 0 : 1];
    if (peer != 0) pairs.push_back({.sender = 0, .receiver = peer, .same_host = same});
  }
  return pairs;
}

}  // namespace

std::vector<EagerLimit> find_eager_limits(const Communicator& comm) {
  std::vector<EagerLimit> limits = choose_pairs(comm);
  for (EagerLimit& limit : limits) {
    if (comm.rank() == limit.sender) send_trials(comm, limit);
    if (comm.rank() == limit.receiver) receive_trials(comm, limit.sender);
    std::array<std::uint64_t, 2> result{limit.bytes, limit.found ? 1U : 0U};
    MPI_CHECK(MPI_Bcast(result.data(), 2, MPI_UINT64_T, limit.sender, comm.get()));
    limit.bytes = result[0];
    limit.found = result[1] != 0;
  }
  return limits;
}

std::string eager_limit_parameter(bool same_host) {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return "";
  std::string text;
  // Open MPI 4 calls its shared-memory transport vader; Open MPI 5 calls it sm.
  const auto names = same_host ? std::array{"btl_sm_eager_limit", "btl_vader_eager_limit"}
                               : std::array{"btl_tcp_eager_limit", "btl_tcp_eager_limit"};
  for (const char* name : names) {
    int index = 0;
    int count = 0;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    std::uint64_t value = 0;
    if (!text.empty() || MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) continue;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) continue;
    if (count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) {
      text = fmt::format("{}: {}", name, value);
    }
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return text;
}

}  // namespace dist
