// How much memory this process uses, as the kernel counts it.
#pragma once

#include <cstddef>

namespace dist {

// Resident bytes: pages that are in memory, not those that are only reserved. If several
// processes share a page, the kernel counts it for each process that has touched it.
struct MemoryUse {
  std::size_t peak = 0;    // the most bytes resident at any one time
  std::size_t own = 0;     // now: what belongs to this process alone, such as the heap
  std::size_t files = 0;   // now: the program, its libraries and mapped data files
  std::size_t shared = 0;  // now: memory shared with other ranks

  // Both functions count only 1 / `ranks` of the shared memory, because each rank on this host
  // contributes one part but sees all parts.
  std::size_t resident_share(int ranks) const { return own + files + part(ranks); }
  std::size_t peak_share(int ranks) const { return peak - shared + part(ranks); }

 private:
  std::size_t part(int ranks) const { return shared / static_cast<std::size_t>(ranks); }
};

// All members are zero if /proc/self/status does not exist.
MemoryUse memory_use();

// Resets the peak, so that it covers only the time from this call on. Returns false and changes
// nothing if the kernel does not permit it.
bool restart_peak();

}  // namespace dist
