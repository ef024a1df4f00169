// An emulated communicator, and how its messages travel: over MPI, until it is aborted.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

constexpr int kRing = -1;

inline thread_local std::string nccl_error;  // ncclGetLastError
inline ncclResult_t fail(ncclResult_t result, const std::string& text) {
  nccl_error = text;
  return result;
}

inline thread_local int group_depth = 0;

struct ncclComm {
  MPI_Comm mpi = MPI_COMM_NULL;
  MPI_Comm setup = MPI_COMM_NULL;  // for connecting, which the host's thread does
  int size = 1;
  int device = 0;
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> error = ncclSuccess;  // asynchronous: a rank or link has failed
  std::set<void*> registered;
  // Shared with queued and captured work, which must end before the communicator does.
  std::shared_ptr<const int> users = std::make_shared<int>();
  // Counts the ranks that have aborted, in memory that all ranks share. A rank that calls a
  // collective after another rank has aborted waits until it aborts too.
  MPI_Win window = MPI_WIN_NULL;
  std::atomic<int>* aborts = nullptr;

  // NCCL connects two ranks when they first exchange data, and the ring when the first
  // collective is called. The call that needs a connection waits until its peers make such a
  // call, too. Returns false if the communicator is aborted in the meantime.
  std::set<int> connected;
  bool connect(std::vector<MPI_Request> requests) const {
    int done = requests.empty() ? 1 : 0;
    while (done == 0 && !aborted) {
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                  MPI_STATUSES_IGNORE);
      std::this_thread::yield();
    }
    return done != 0;
  }
};

// One send or receive, or a collective. A group starts all its transfers before it waits for
// any of them.
struct Transfer {
  int peer;  // kRing for a collective
  std::function<MPI_Request()> start;
  std::function<void()> finish;
};

// Runs the transfers; returns false if the communicator is aborted before they are done. Never
// waits inside MPI, because an abort must end the wait even if the peer never arrives.
inline bool run(ncclComm_t comm, const std::vector<Transfer>& transfers) {
  std::vector<MPI_Request> requests;
  int done = 0;
  while (done == 0 && !comm->aborted) {
    if (requests.empty() && *comm->aborts == 0 && comm->error == ncclSuccess) {
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
