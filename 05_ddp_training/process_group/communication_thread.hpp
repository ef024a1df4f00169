// What this file adds: a thread of its own for collectives, so that they run beside the
// computation (PyTorch's ProcessGroupMPI works so).
//
// Why a thread and not MPI_Iallreduce: Open MPI moves a non-blocking collective only while the
// program is inside some MPI call, and backward makes none (process_group/
// nonblocking_mpi_process_group shows it). A blocking call on a second thread needs nobody's
// help.
#pragma once

#include "05_ddp_training/process_group/process_group.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace dist {

// Runs what it is given, one after the other, in the order given. While work of its is
// unfinished, no other thread may call MPI (MPI_THREAD_SERIALIZED).
class CommunicationThread {
 public:
  // Work runs with `device` as the thread's current one.
  explicit CommunicationThread(Device device);
  // Finishes what it was given.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // An exception of `job` comes out of the Work's wait().
  std::unique_ptr<Work> submit(std::function<void()> job);

 private:
  void run(Device device);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dist
