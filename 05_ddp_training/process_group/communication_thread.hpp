// What this file adds: a separate thread for collectives, so that they run during the
// computation, as in PyTorch's ProcessGroupMPI.
//
// Why a thread and not MPI_Iallreduce? Open MPI advances a non-blocking collective only while
// the program is inside an MPI call, and the backward pass makes none (see
// nonblocking_mpi_process_group). A blocking call on a second thread advances independently.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace dist {

// Runs jobs one after another, in the order in which they were submitted. While it has
// unfinished work, no other thread may call MPI (MPI_THREAD_SERIALIZED).
class CommunicationThread {
 public:
  // Jobs run with `device` as the thread's current device.
  explicit CommunicationThread(Device device);
  // Finishes all jobs first.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // If `job` throws, the Work's wait() throws the same exception. The Work's time is that from
  // `begin`, which the job may change, to its end.
  using Job = std::function<void(std::chrono::steady_clock::time_point& begin)>;
  std::unique_ptr<Work> submit(Job job);

 private:
  void run(Device device);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // the jobs
  bool closing_ = false;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
