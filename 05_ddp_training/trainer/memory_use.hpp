// How much memory this process takes, as the kernel counts it.
#pragma once

#include <cstddef>

namespace dist {

// Resident bytes: pages that are in memory, not those that are only reserved. The kernel counts
// a page that several processes share for each that has touched it.
struct MemoryUse {
  std::size_t peak = 0;    // the most that was resident at any time
  std::size_t own = 0;     // now: what only this process sees, such as the heap
  std::size_t files = 0;   // now: the program, its libraries, mapped data files
  std::size_t shared = 0;  // now: memory shared with other ranks

  // With shared memory divided by the ranks of this host that share it, as each of them brings
  // a part and sees all parts.
  std::size_t resident_share(int ranks) const { return own + files + part(ranks); }
  std::size_t peak_share(int ranks) const { return peak - shared + part(ranks); }

 private:
  std::size_t part(int ranks) const { return shared / static_cast<std::size_t>(ranks); }
};

// All zero where there is no /proc/self/status.
MemoryUse memory_use();

// From now on the peak is that of the time after this call. Returns false, and changes nothing,
// where the kernel does not let us.
bool restart_peak();

}  // namespace dist
