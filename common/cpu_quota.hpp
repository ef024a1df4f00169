// The processor time that Linux's control groups let this process use. A container with
// `--cpus 2`, or a job of a batch system, may still see all of the machine's processors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace dist {

struct CpuQuota {
  // How many processors' worth of time: the least of this process's group and those around it.
  double processors = std::numeric_limits<double>::infinity();
  // Of the group that sets it: the periods (of 100 ms, usually) in which one of its processes
  // ran, and those of them in which it had used up its time, so that all of them were paused.
  std::uint64_t periods = 0, paused_periods = 0;
};

// Reads both versions of control groups (Linux, Documentation/admin-guide/cgroup-v2.rst, "CPU
// Interface Files", and Documentation/scheduler/sched-bwc.rst).
CpuQuota cpu_quota(const std::filesystem::path& membership = "/proc/self/cgroup",
                   const std::filesystem::path& groups = "/sys/fs/cgroup");

// Whether this host has more of the job's ranks than processors for them. False if the launcher
// does not say how many ranks it has started here.
bool more_ranks_than_processors();

}  // namespace dist
