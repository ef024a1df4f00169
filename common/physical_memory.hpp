// What this machine's memory can hold at most. Linux lends more, and ends whoever uses it.
#pragma once

#include "common/check.hpp"

#include <fmt/format.h>

#include <string>
#include <unistd.h>

namespace dist {

// Bytes of this host.
inline double physical_memory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Throws Error if what `flag` asks for takes more bytes than this host has.
inline void require_memory(const std::string& flag, double bytes, const std::string& what) {
  const double there = physical_memory();
  if (bytes <= there) return;
  throw Error(fmt::format("{}: {} take {:.0f} bytes, but this host has {:.0f}", flag, what,
                          bytes, there));
}

}  // namespace dist
