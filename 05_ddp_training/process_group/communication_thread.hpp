// What this file adds: a separate thread for collectives, so that they run during the
// computation, as in PyTorch's ProcessGroupMPI.
//
// Why a thread and not MPI_Iallreduce? Open MPI advances a non-blocking collective only while
// the program is inside an MPI call, and the backward pass makes none (break_it/iallreduce). A
// blocking call on a second thread advances independently.
#pragma once

#include "common/device.hpp"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace dist {

// Runs jobs one after another, in the order in which they were submitted. While it has
// unfinished work, no other thread may call MPI (MPI_THREAD_SERIALIZED).
class CommunicationThread {
 public:
  using Job = std::packaged_task<double()>;

  // Jobs run with `device` as the thread's current device.
  explicit CommunicationThread(Device device);
  // Finishes all jobs first.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  void submit(Job job);

 private:
  void run(Device device);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool closing_ = false;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
