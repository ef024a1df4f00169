#include "tools/watch/patience.hpp"

#include "common/patient_waits.hpp"

#include <chrono>
#include <cstdint>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dist {
namespace {

using namespace std::chrono_literals;

// Linux's struct sched_attr, which glibc has no name for before 2.41.
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

// This thread runs shortly and often. From Linux 6.12 on a thread that asks for short turns may
// interrupt one that has longer ones; before that nothing happens, and nothing is lost.
void ask_for_short_turns() {
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  constexpr std::chrono::nanoseconds kTurn = 500us;
  if (attributes.policy != 0) return;  // somebody has other plans with this thread
  attributes.runtime = static_cast<std::uint64_t>(kTurn.count());
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

PatientWaits::PatientWaits() {
  diagnostics::patient = true;
  // Otherwise Linux adds up to 50 us to each pause, to wake several threads at once.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ask_for_short_turns();
}

PatientWaits::~PatientWaits() {
  diagnostics::patient = false;
}

}  // namespace dist
