#include "tools/watch/patience.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dist::watch {
namespace {

std::atomic<bool> crowded{false};
thread_local Patience patience = Patience::by_load;

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

double processors_of_quota(const std::filesystem::path& membership,
                           const std::filesystem::path& groups) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream lines(membership);
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("0::")) {
  }
  if (line.empty()) return least;
  std::filesystem::path folder = groups / std::filesystem::path(line.substr(3)).relative_path();
  for (;; folder = folder.parent_path()) {
    double quota = 0, period = 1;  // "max 100000" if there is no limit
    if (std::ifstream(folder / "cpu.max") >> quota >> period) {
      least = std::min(least, quota / period);
    }
    if (folder == groups || folder == folder.parent_path()) return least;
  }
}

void count_processors() {
  const char* const ranks = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (ranks == nullptr) return;
  // Each rank may be bound to a core of its own. Their parent, the launcher, is not.
  cpu_set_t mine, launchers;
  CPU_ZERO(&mine);
  CPU_ZERO(&launchers);
  ::sched_getaffinity(0, sizeof mine, &mine);
  ::sched_getaffinity(::getppid(), sizeof launchers, &launchers);
  CPU_OR(&mine, &mine, &launchers);
  crowded = std::atoi(ranks) > std::min<double>(CPU_COUNT(&mine), processors_of_quota());
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

bool waits_patiently() {
  return patience == Patience::always ||
         (patience == Patience::by_load && crowded.load(std::memory_order_relaxed));
}

std::chrono::nanoseconds time_of_polling() {
  return std::chrono::milliseconds(patience == Patience::always ? 0 : 1);
}

}  // namespace dist::watch
