// What this file adds: a separate thread for collectives, so that they run during the
// computation, as in PyTorch's ProcessGroupMPI. Open MPI advances MPI_Iallreduce only while the
// program is inside an MPI call, and the backward pass makes none (break_it/iallreduce).
#pragma once

#include "05_ddp_training/process_group/patient_wait.hpp"
#include "common/device.hpp"
#include "common/watch.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
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
    const CurrentDevice current(device);
    name_this_thread("all-reduces");
    wait_patiently(true);  // polling would take cores from backward and delay each message
    wake_promptly();
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

  // This thread runs often, but only briefly each time. By default Linux lengthens each pause
  // by up to 50 us. From Linux 6.12 on, a thread that asks for short time slices may preempt
  // one with longer slices; older kernels ignore this.
  static void wake_promptly() {
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    struct {  // struct sched_attr, which glibc declares only from version 2.41 on
      std::uint32_t size, policy;
      std::uint64_t flags;
      std::int32_t nice;
      std::uint32_t priority;
      std::uint64_t nanoseconds, deadline, period;
    } turns{};
    if (::syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) != 0) return;
    if (turns.policy != 0) return;  // the user has chosen a policy other than SCHED_OTHER
    turns.nanoseconds = 500'000;
    ::syscall(SYS_sched_setattr, 0, &turns, 0);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::thread thread_;  // declared last, because it uses all members above
};

}  // namespace dist
