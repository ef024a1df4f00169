// Counts the distinct values over all ranks, to tell whether all ranks hold the same value.
#pragma once

#include "03_all_reduce/ring.hpp"

#include <set>
#include <vector>

namespace dist {

// Called on all ranks; all get the same number.
inline std::size_t count_distinct(const Communicator& comm, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = mine;
  ring_all_gather<std::uint64_t>(comm, all);
  return std::set(all.begin(), all.end()).size();
}

}  // namespace dist
