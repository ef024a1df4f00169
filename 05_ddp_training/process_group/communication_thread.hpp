// What this file adds: a separate thread for collectives, so that they run during the
// computation, as in PyTorch's ProcessGroupMPI. Open MPI advances MPI_Iallreduce only while the
// program is inside an MPI call, and the backward pass makes none (break_it/iallreduce).
#pragma once

#include "common/device.hpp"
#include "common/watch.hpp"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace dist {

// Runs jobs one after another, in the order in which they were submitted. While it has
// unfinished work, no other thread may call MPI (MPI_THREAD_SERIALIZED).
class CommunicationThread {
 public:
  using Job = std::packaged_task<double()>;

  // Jobs run with `device` as the thread's current device.
  explicit CommunicationThread(Device device) : thread_([this, device] { run(device); }) {}
  // Finishes all jobs first.
  ~CommunicationThread() {
    submit({});
    thread_.join();
  }
  CommunicationThread(CommunicationThread&&) = delete;

  void submit(Job job) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
    changed_.notify_one();
  }

 private:
  void run(Device device) {
    make_current(device);
    name_this_thread("all-reduces");
    set_patience(Patience::always);  // polling would take cores from backward
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      Job job = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!job.valid()) return;  // the destructor's
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
