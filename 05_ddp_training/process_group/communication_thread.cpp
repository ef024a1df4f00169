#include "05_ddp_training/process_group/communication_thread.hpp"

#include "05_ddp_training/process_group/patient_wait.hpp"
#include "common/watch.hpp"

#include <chrono>
#include <cstdint>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace dist {
namespace {

using namespace std::chrono_literals;

// Linux's struct sched_attr, which glibc declares only from version 2.41 on.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;  // SCHED_OTHER
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// This thread runs often, but only briefly each time. From Linux 6.12 on, a thread that asks
// for short time slices may preempt one with longer slices. On older kernels this has no
// effect.
void ask_for_short_turns() {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  constexpr std::chrono::nanoseconds kTurn = 500us;
  if (attributes.policy != 0) return;  // the user has chosen a different policy
  attributes.runtime = static_cast<std::uint64_t>(kTurn.count());
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

CommunicationThread::CommunicationThread(Device device)
    : thread_([this, device] { run(device); }) {}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void CommunicationThread::submit(Job job) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(job));
  changed_.notify_one();
}

void CommunicationThread::run(Device device) {
  const CurrentDevice current(device);
  name_this_thread("all-reduces");
  // Busy waiting would compete with the backward pass for cores and delay each message so much
  // that almost nothing would be hidden. By default Linux lengthens each pause by up to 50 us
  // so that it can wake several threads at once.
  wait_patiently(true);
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ask_for_short_turns();
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace dist
