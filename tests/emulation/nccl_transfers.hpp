// An emulated communicator, and how its messages travel: over MPI, until it is revoked or
// aborted.
#pragma once

#include "tests/emulation/runtime.hpp"

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

constexpr int kRing = -1;

inline thread_local std::string nccl_error;  // ncclGetLastError
inline ncclResult_t fail(ncclResult_t result, const std::string& text) {
  nccl_error = text;
  return result;
}

inline thread_local int group_depth = 0;

// Work, queued or captured, holds a copy of the token of each thing that it needs.
using Token = std::shared_ptr<const int>;
inline bool is_used(const Token& token) {
  return token.use_count() > 1;
}

struct ncclComm {
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm setup = MPI_COMM_NULL;  // for connecting, which the host's thread does
  int size = 1;
  int device = 0;
  // Never deleted, so that a use after it was freed can be reported.
  std::atomic<bool> freed = false;
  std::atomic<bool> ended = false;  // nothing waits any more
  std::atomic<bool> revoked = false;
  std::atomic<int> running = 0;  // work on streams
  bool finalized = false;
  std::atomic<int> calls = 0;                     // that are running
  std::atomic<ncclResult_t> error = ncclSuccess;  // asynchronous: a rank or link has failed
  std::set<void*> registered;
  Token queued = std::make_shared<int>();
  Token captured = std::make_shared<int>();
  // Counts the ranks that have ended their waits, in memory that all ranks share. A rank that
  // runs a collective later waits until its own waits are ended, and if it must connect first,
  // it finds the connections closed.
  MPI_Win window = MPI_WIN_NULL;
  std::atomic<int>* aborts = nullptr;

  // NCCL connects two ranks when they first exchange data, and the ring when the first
  // collective is called. The call that needs a connection waits until its peers make such a
  // call, too.
  std::set<int> connected;
  ncclResult_t connect(std::vector<MPI_Request> requests) const {
    int done = requests.empty() ? 1 : 0;
    while (done == 0) {
      if (ended) return fail(ncclInternalError, "the call was ended");
      if (*aborts > 0) return fail(ncclRemoteError, "a rank has closed its connections");
      PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                   MPI_STATUSES_IGNORE);
      std::this_thread::yield();
    }
    return ncclSuccess;
  }
};

// A call that uses a communicator.
class CallOf {
 public:
  CallOf(ncclComm_t comm, const char* name) : comm_(comm) {
    if (comm->freed) emulation::stop(name, "a communicator that was freed");
    ++comm->calls;
  }
  ~CallOf() { --comm_->calls; }
  CallOf(CallOf&&) = delete;

 private:
  ncclComm_t comm_;
};

// The token of memory from ncclMemAlloc that contains `memory`; null for other memory.
Token token_of(const void* memory);

// One send or receive, or a collective. A group starts all its transfers before it waits for
// any of them.
struct Transfer {
  int peer;  // kRing for a collective
  std::function<MPI_Request()> start;
  std::function<void()> finish;
  std::vector<Token> memory{};
};

// Runs the transfers; returns false if they are ended before they are done. Never waits inside
// MPI, because an abort must end the wait even if the peer never arrives.
inline bool run(ncclComm_t comm, const std::vector<Transfer>& transfers) {
  std::vector<MPI_Request> requests;
  int done = 0;
  ++comm->running;
  while (done == 0 && !comm->ended) {
    if (requests.empty() && *comm->aborts == 0 && comm->error == ncclSuccess) {
      for (const Transfer& transfer : transfers) requests.push_back(transfer.start());
    }
    if (!requests.empty()) {
      PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                   MPI_STATUSES_IGNORE);
    }
    if (done == 0) std::this_thread::yield();
  }
  --comm->running;
  return done != 0;
}

// Keeps the transfers that an abort leaves behind, because MPI may still write to their memory.
inline void abandon(std::vector<Transfer> transfers) {
  for (Transfer& transfer : transfers) transfer.memory.clear();
  static auto* const all = new std::vector<std::vector<Transfer>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(transfers));
}
