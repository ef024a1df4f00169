// Programs whose ranks are slow or busy, which is no hang, one for each --case
// (test_hang_report.py).
#include "01_send_recv/send_recv.hpp"
#include "common/watch.hpp"
#include "tests/watch/run_case.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace dist;
using namespace std::chrono_literals;

// Computes for less than the time-out between two calls, but longer in total.
void slow(const Communicator& comm) {
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600 + 50 * comm.rank()));
    comm.barrier();
  }
}

// Like slow(), but the only progress is the end of a wait in shared memory, or of a start.
void slow_waits(const Communicator& comm) {
  for (int i = 0; i < 4; ++i) {
    const WaitScope wait("a slow neighbour", comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    const StartScope start;
  }
  comm.barrier();
}

// Until the child ends, vfork leaves its parent in the state of a process waiting for a disk.
void slow_disk(const Communicator& comm) {
  if (comm.rank() == 2 && ::vfork() == 0) ::_exit(static_cast<int>(::sleep(3)));
  comm.barrier();
}

// Measured in processor time, which does not depend on how busy the machine is.
void compute(std::chrono::milliseconds time) {
  const std::clock_t end = std::clock() + time.count() * CLOCKS_PER_SEC / 1000;
  while (std::clock() < end) continue;
}

// In each of 60 rounds, the last rank computes for `last`, the others for `others`. Then rank 1
// stays away.
void work(const Communicator& comm, std::chrono::milliseconds others,
          std::chrono::milliseconds last) {
  for (int i = 0; i < 60; ++i) {
    compute(comm.rank() == comm.size() - 1 ? last : others);
    comm.barrier();
  }
  if (comm.rank() != 1) comm.barrier();
}

// Rank 0 says that it begins to wait for the others, which compute.
void waiting(const Communicator& comm) {
  comm.barrier();
  if (comm.rank() == 0) {
    std::puts("waiting");
    std::fflush(stdout);
  } else {
    compute(std::chrono::milliseconds(1500));
  }
  comm.barrier();
}

// Rank 0 says how long nothing may move.
void timeout(const Communicator& comm) {
  const WatchTable* const watch = watch_table();
  if (comm.rank() == 0) std::printf("%g\n", watch == nullptr ? -1 : watch->timeout_s());
}

// All ranks compute for several time-outs of one second.
void long_computation(const Communicator& comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3500);
  while (std::chrono::steady_clock::now() < end) continue;
  comm.barrier();
}

// More messages than a trace can hold, to itself: on a busy machine another may not run.
void chatter(const Communicator& comm) {
  std::vector<float> out(1), in(1);
  for (int i = 0; i < 60'000; ++i) send_recv<float>(comm, out, comm.rank(), in, comm.rank());
}

}  // namespace

int main(int argc, char** argv) {
  return run_case(argc, argv, "slow_ranks", "Is slow or busy in the way that --case selects.",
                  {{"slow", slow},
                   {"slow-disk", slow_disk},
                   {"slow-waits", slow_waits},
                   {"waiting", waiting},
                   {"timeout", timeout},
                   {"computing", long_computation},
                   {"chatter", chatter},
                   {"equal-work", [](auto& all) { work(all, 20ms, 20ms); }},
                   {"slow-rank", [](auto& all) { work(all, 20ms, 60ms); }},
                   // A round lasts as long as the watch's time between two samples.
                   {"slow-rank-in-step", [](auto& all) { work(all, 10ms, 50ms); }}});
}
