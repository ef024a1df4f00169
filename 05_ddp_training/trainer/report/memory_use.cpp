#include "05_ddp_training/trainer/report/memory_use.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string>

namespace dist {

MemoryUse memory_use() {
  std::map<std::string, std::size_t> bytes;
  std::ifstream status("/proc/self/status");
  // Parse lines such as "VmHWM:     1940 kB", and ignore lines without a number.
  for (std::string key; status >> key;) {
    std::size_t kib = 0;
    if (status >> kib) bytes[key] = 1024 * kib;
    status.clear();
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  MemoryUse use{.peak = bytes["VmHWM:"],
                .own = bytes["RssAnon:"],
                .files = bytes["RssFile:"],
                .shared = bytes["RssShmem:"]};
  // The kernel updates its record of the peak only from time to time.
  use.peak = std::max(use.peak, use.own + use.files + use.shared);
  return use;
}

bool restart_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5): resets VmHWM
  return file.good();
}

}  // namespace dist
