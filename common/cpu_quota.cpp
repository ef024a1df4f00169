#include "common/cpu_quota.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

namespace dist {

namespace fs = std::filesystem;

// The processors' worth of time that the group of this folder may use; 0 if there is no limit.
static double limit_of(const fs::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream(folder / "cpu.max") >> quota >> period) return quota / period;
  // "max 100000" is not a number: no limit. The first version writes -1.
  std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
  std::ifstream(folder / "cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// Tightens `quota` to the group of `folder` and those around it, up to `groups`. In a
// container, the inner folders may not exist.
static void tighten(CpuQuota& quota, fs::path folder, const fs::path& groups) {
  for (;; folder = folder.parent_path()) {
    if (const double limit = limit_of(folder); limit > 0 && limit < quota.processors) {
      quota = {.processors = limit};
      std::ifstream counts(folder / "cpu.stat");
      std::string key;
      for (std::uint64_t number = 0; counts >> key >> number;) {
        if (key == "nr_periods") quota.periods = number;
        if (key == "nr_throttled") quota.paused_periods = number;
      }
    }
    if (folder == groups || folder == folder.parent_path()) return;
  }
}

CpuQuota cpu_quota(const fs::path& membership, const fs::path& groups) {
  CpuQuota quota;
  std::ifstream lines(membership);
  // "0::/path" is the group of version 2, and "4:cpu,cpuacct:/path" one of version 1, which has
  // a tree of folders for each controller.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find(':') + 1, end = line.find(':', begin);
    if (end == std::string::npos) continue;
    const std::string controllers = "," + line.substr(begin, end - begin) + ",";
    const bool has_cpu = controllers.find(",cpu,") != std::string::npos;
    if (controllers != ",," && !has_cpu) continue;
    const fs::path root = has_cpu ? groups / "cpu" : groups;
    tighten(quota, root / fs::path(line.substr(end + 1)).relative_path(), root);
  }
  return quota;
}

bool more_ranks_than_processors() {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (ranks == nullptr) ranks = std::getenv("MPI_LOCALNRANKS");  // MPICH's
  if (ranks == nullptr) return false;
  // Each rank may be bound to a core of its own. Their parent, the launcher, is not.
  cpu_set_t mine, launchers;
  CPU_ZERO(&mine);
  CPU_ZERO(&launchers);
  ::sched_getaffinity(0, sizeof mine, &mine);
  ::sched_getaffinity(::getppid(), sizeof launchers, &launchers);
  CPU_OR(&mine, &mine, &launchers);
  return std::atoi(ranks) > std::min<double>(CPU_COUNT(&mine), cpu_quota().processors);
}

}  // namespace dist
