#include "tools/watch/wait/patience.hpp"

#include "common/cpu_quota.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace dist::watch {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::atomic<bool> crowded{false};
thread_local Patience patience = Patience::by_load;

// This thread's call of MPI: whether it is in one, and since when that one has yielded (the
// clock's epoch: it has not).
thread_local bool in_call = false;
thread_local SteadyClock::time_point waits_since{};

bool waits_patiently() {
  return patience == Patience::always ||
         (patience == Patience::by_load && crowded.load(std::memory_order_relaxed));
}

// From Linux 6.12 on, a thread that asks for short time slices may preempt one with longer
// slices when it wakes up; older kernels ignore this.
void ask_for_short_slices() {
  struct {  // struct sched_attr, which glibc declares only from version 2.41 on
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t nanoseconds, deadline, period;
  } slices{};
  if (::syscall(SYS_sched_getattr, 0, &slices, sizeof slices, 0) != 0) return;
  if (slices.policy != SCHED_OTHER) return;  // the user has chosen another policy
  slices.nanoseconds = 500'000;
  ::syscall(SYS_sched_setattr, 0, &slices, 0);
}

}  // namespace

void count_processors() {
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*replace=*/0);
  crowded = more_ranks_than_processors();
  if (crowded) ask_for_short_slices();
}

void set_patience(Patience now) {
  if (now == Patience::always) {
    // By default, Linux lengthens each pause by up to 50 us.
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    ask_for_short_slices();
  }
  patience = now;
}

CallThatWaits::CallThatWaits() {
  in_call = true;
  waits_since = {};
}

CallThatWaits::~CallThatWaits() {
  in_call = false;
}

// A rank that waits for another one yields for a while before it sleeps, because pauses make
// the answer late. A pause is an eighth of the time waited so far, but at most 100 us, so the
// wait ends at most one pause late.
static bool has_slept() {
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(100);
  if (!in_call || !waits_patiently()) return false;
  const SteadyClock::time_point now = SteadyClock::now();
  if (waits_since == SteadyClock::time_point{}) waits_since = now;
  const std::chrono::nanoseconds waited = now - waits_since;
  if (patience != Patience::always && waited < std::chrono::milliseconds(1)) return false;
  std::this_thread::sleep_for(std::min(waited / 8, kLongestPause));
  return true;
}

}  // namespace dist::watch

// Instead of the C library's, for the yields of MPI.
extern "C" [[gnu::visibility("default")]] int sched_yield() noexcept {
  return dist::watch::has_slept() ? 0 : static_cast<int>(::syscall(SYS_sched_yield));
}
