// An emulated communicator, and how its messages travel: over MPI, until it is aborted.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

struct ncclComm {
  MPI_Comm mpi = MPI_COMM_NULL;
  int size = 1;
  std::atomic<int> queued = 0;  // operations that no stream has finished yet
  std::atomic<bool> aborted = false;
  std::set<void*> registered;
  // Counts the ranks that have aborted, in memory that all ranks share. A rank that calls a
  // collective after another rank has aborted waits until it aborts too.
  MPI_Win window = MPI_WIN_NULL;
  std::atomic<int>* aborts = nullptr;
  // With a non-blocking communicator every call returns ncclInProgress, and before the next
  // call the caller must poll ncclCommGetAsyncError until it returns something else.
  bool blocking = true;
  int polls_left = 0;

  ncclResult_t start() {
    if (blocking) return ncclSuccess;
    polls_left = 2;
    return ncclInProgress;
  }
};

// One send or receive. A group starts all its transfers before it waits for any of them.
struct Transfer {
  std::function<MPI_Request()> start;
  std::function<void()> finish;
};

// Runs the transfers; returns false if the communicator is aborted before they are done. Never
// waits inside MPI, because an abort must end the wait even if the peer never arrives.
inline bool run(ncclComm_t comm, const std::vector<Transfer>& transfers) {
  std::vector<MPI_Request> requests;
  int done = 0;
  while (done == 0 && !comm->aborted) {
    if (requests.empty() && *comm->aborts == 0) {
      for (const Transfer& transfer : transfers) requests.push_back(transfer.start());
    }
    if (!requests.empty()) {
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                  MPI_STATUSES_IGNORE);
    }
    if (done == 0) std::this_thread::yield();
  }
  return done != 0;
}

// Keeps the transfers that an abort leaves behind, because MPI may still write to their memory.
inline void abandon(const std::vector<Transfer>& transfers) {
  static auto* const all = new std::vector<std::vector<Transfer>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(transfers);
}
