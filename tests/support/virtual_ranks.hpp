// Shared by the tests of --deterministic: groups of a given number of ranks.
#pragma once

#include "05_ddp_training/deterministic/virtual_ranks.hpp"
#include "tests/support/mpi_test.hpp"

#include <vector>

namespace dist::test {

inline constexpr int kRanks = VirtualRanks::kCount;

// Called on all ranks. Runs test(group) in each complete group of the given size.
template <class Test>
void in_groups_of(int size, Test test) {
  const Communicator group = world().split(world().rank() / size, world().rank());
  if (group.size() == size) test(group);
}

inline std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (const int size : {1, 2, 4, 8}) {
    if (size <= world().size()) sizes.push_back(size);
  }
  return sizes;
}

inline VirtualRanks played_by(const Communicator& group) {
  return {kRanks, group.size(), group.rank()};
}

}  // namespace dist::test
