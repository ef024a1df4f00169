// How the wrappers of blocking calls wait on a thread that has PatientWaits.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace dist::diagnostics {

inline thread_local bool patient = false;

// Until test(done), one of the PMPI_Test calls, fails or sets `done`; returns what it returned.
template <class Test>
int wait_patiently(Test test) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(100);
  const auto begin = Clock::now();
  for (;;) {
    int done = 0;
    const int result = test(&done);
    if (result != MPI_SUCCESS || done != 0) return result;
    const std::chrono::nanoseconds waited = Clock::now() - begin;
    std::this_thread::sleep_for(std::min(waited / 8, kLongestPause));
  }
}

}  // namespace dist::diagnostics
