// Waits that leave the processor to others. MPI polls while it waits, which is fastest for a
// rank with a processor of its own. Without one, polling takes time from those that it waits
// for. Yielding does not help beside other programs: the next turn may come milliseconds later.
// A thread that sleeps gets its turn soon after it wakes up.
#pragma once

#include "common/watch.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

namespace dist::watch {

// Finds out whether this host has more ranks than processors for them. If so, all threads wait
// patiently (Patience::by_load). Sends no message: another rank may run without the watch.
void count_processors();
// The processors' worth of time that this process's control group may use: the least of cpu.max
// in its folder and those around it, infinity without a limit (Linux, "Control Group v2"). A
// container with `--cpus 2` may still see all of the machine's processors.
double processors_of_quota(const std::filesystem::path& membership = "/proc/self/cgroup",
                           const std::filesystem::path& groups = "/sys/fs/cgroup");

void set_patience(Patience patience);  // of this thread
// Whether this thread's waits may sleep, and how long they poll before they do. A rank that
// waits for another one polls for a while, because pauses make the answer late: without other
// programs, yielding to the other ranks is enough.
bool waits_patiently();
std::chrono::nanoseconds time_of_polling();

// Calls test(done) until `done` is true, after the time of polling with pauses of an eighth of
// the time waited so far, but at most 100 us. So the wait ends at most one pause late. Returns
// MPI's status.
template <class Test>
int poll(Test test) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(100);
  const std::chrono::nanoseconds polling = time_of_polling();
  for (const auto begin = Clock::now();;) {
    int done = 0;
    const int result = test(&done);
    if (result != MPI_SUCCESS || done != 0) return result;
    const std::chrono::nanoseconds waited = Clock::now() - begin;
    if (waited >= polling) std::this_thread::sleep_for(std::min(waited / 8, kLongestPause));
  }
}

// MPI_Wait.
inline int wait_for(MPI_Request* request, MPI_Status* status) {
  if (!waits_patiently()) return PMPI_Wait(request, status);
  return poll([=](int* done) { return PMPI_Test(request, done, status); });
}

// Calls block(), or start(&request) and waits for its end if this thread waits patiently.
template <class Block, class Start>
int wait_for(MPI_Status* status, Block block, Start start) {
  if (!waits_patiently()) return block();
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = start(&request);
  return result == MPI_SUCCESS ? wait_for(&request, status) : result;
}

}  // namespace dist::watch
