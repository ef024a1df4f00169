#include "05_ddp_training/process_group/communication_thread.hpp"

#include "common/watch.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
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

// The state of one job, shared by the two threads.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  double milliseconds = 0;
  std::exception_ptr failure;
};

class ThreadWork : public Work {
 public:
  explicit ThreadWork(std::shared_ptr<Outcome> outcome) : outcome_(std::move(outcome)) {}
  // Wait even if wait() was never called: the tensor may be freed once this object is gone.
  ~ThreadWork() override { until_done(); }

  bool is_completed() override {
    const std::lock_guard lock(outcome_->mutex);
    return outcome_->done;
  }
  void wait(const Stream&) override { synchronize(); }
  void synchronize() override {
    until_done();
    if (outcome_->failure) std::rethrow_exception(std::exchange(outcome_->failure, nullptr));
  }
  double elapsed_ms() override {
    until_done();
    return outcome_->milliseconds;
  }

 private:
  void until_done() {
    std::unique_lock lock(outcome_->mutex);
    outcome_->changed.wait(lock, [this] { return outcome_->done; });
  }
  std::shared_ptr<Outcome> outcome_;
};

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

std::unique_ptr<Work> CommunicationThread::submit(Job job) {
  auto outcome = std::make_shared<Outcome>();
  auto timed = [outcome, job = std::move(job)]() mutable {
    auto begin = std::chrono::steady_clock::now();
    std::exception_ptr failure;
    try {
      job(begin);
    } catch (...) {
      failure = std::current_exception();
    }
    const auto end = std::chrono::steady_clock::now();
    // Release the job's tensor before the job counts as done. Otherwise this thread could be
    // the tensor's last owner and free its GPU memory with cudaFree, which waits until all
    // streams are idle.
    job = nullptr;
    const std::lock_guard lock(outcome->mutex);
    outcome->milliseconds = std::chrono::duration<double, std::milli>(end - begin).count();
    outcome->failure = failure;
    outcome->done = true;
    outcome->changed.notify_all();
  };
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(timed));
  changed_.notify_one();
  return std::make_unique<ThreadWork>(std::move(outcome));
}

void CommunicationThread::run(Device device) {
  const CurrentDevice current(device);
  name_this_thread("all-reduces");
  // This thread waits for messages with short pauses (lesson 1, patient_wait). By default Linux
  // lengthens each pause by up to 50 us so that it can wake several threads at once.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ask_for_short_turns();
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace dist
