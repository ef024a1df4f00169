// The watch: a thread on each rank that checks whether any rank of its host makes progress.
#pragma once

#include "tools/watch/observe/host_boards.hpp"

#include <thread>

namespace dist::watch {

constexpr int kHangStatus = 86;

// The thread does not call MPI: the program's thread level may forbid that, and MPI itself may
// hang. When no rank of the host has moved for `timeout_s`, and some rank waits, one rank
// reports, saves the trace and exits with status 86. The launcher then ends the others. If all
// ranks compute, one of them says so, each time, and they go on. If all ranks of the job, on a
// single host, are in the same call, or in calls that match, a slow machine gets ten times as
// long.
//
// With several hosts, each host reports on its own ranks, because hosts share no memory and the
// network may be down. If the launcher then cannot end, it is killed (end_launcher.hpp).
//
// Time is counted in ticks of this thread, each at most a tenth of the time-out. So when a
// suspended machine wakes up, or all processes continue after a stop, the pause does not count
// as a hang. Neither do the first 30 s of waiting for a disk.
//
// Called by the rank's main thread. `boards` must outlive the watch.
std::jthread start_watch(HostBoards& boards, double timeout_s);

}  // namespace dist::watch
