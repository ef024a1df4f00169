// Right and wrong ways to go on in mid-epoch.
#include "tests/exercises/04_distributed_sampler/reference/indices_after.hpp"
#include "tests/exercises/04_distributed_sampler/reference/my_indices.hpp"
#include "tests/exercises/04_distributed_sampler/solutions/solutions.hpp"

#include <algorithm>

namespace dist::exercise {
namespace {

using Order = std::span<const std::size_t>;

// What is left of `list` without its first `count`.
Indices without_first(const Indices& list, std::size_t count) {
  return {list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size())), list.end()};
}

// Right, differently written: the rest of the order, with its padding, is dealt like cards.
Indices deals_the_rest(Order order, std::size_t taken, int num_replicas, int rank,
                       Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  if (taken > order.size()) taken = order.size();
  Indices rest(order.begin() + static_cast<std::ptrdiff_t>(taken), order.end());
  if (policy == Policy::drop) rest.resize(rest.size() - rest.size() % ranks);
  for (std::size_t next = 0; policy == Policy::pad && rest.size() % ranks != 0; ++next) {
    rest.push_back(order[next % order.size()]);
  }
  Indices mine;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i % ranks == static_cast<std::size_t>(rank)) mine.push_back(rest[i]);
  }
  return mine;
}

Indices starts_over(Order order, std::size_t, int num_replicas, int rank, Policy policy) {
  return my_indices(order, num_replicas, rank, policy);
}

// `taken` entries of this rank's own list: it stands for all ranks together.
Indices skips_too_many(Order order, std::size_t taken, int num_replicas, int rank,
                       Policy policy) {
  return without_first(my_indices(order, num_replicas, rank, policy), taken);
}

// Right as long as the number of ranks stays, and divides.
Indices skips_in_its_list(Order order, std::size_t taken, int num_replicas, int rank,
                          Policy policy) {
  return without_first(my_indices(order, num_replicas, rank, policy),
                       taken / static_cast<std::size_t>(num_replicas));
}

// Whole turns only: begins at the next multiple of the new number of ranks.
Indices rounds_up(Order order, std::size_t taken, int num_replicas, int rank, Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  return indices_after(order, (taken + ranks - 1) / ranks * ranks, num_replicas, rank, policy);
}

Indices blocks_of_the_rest(Order order, std::size_t taken, int num_replicas, int rank,
                           Policy policy) {
  if (taken >= order.size()) return {};
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t left = order.size() - taken;
  const std::size_t each = policy == Policy::drop ? left / ranks : (left + ranks - 1) / ranks;
  Indices mine;
  for (std::size_t i = 0; i < each; ++i) {
    mine.push_back(order[(taken + static_cast<std::size_t>(rank) * each + i) % order.size()]);
  }
  return mine;
}

// Takes the rest for an order of its own: it is padded by entries that are not yet taken.
Indices pads_by_the_rest(Order order, std::size_t taken, int num_replicas, int rank,
                         Policy policy) {
  if (taken >= order.size()) return {};
  return my_indices(order.subspan(taken), num_replicas, rank, policy);
}

// As many as a whole epoch would give, less what is done.
Indices counts_the_whole_set(Order order, std::size_t taken, int num_replicas, int rank,
                             Policy policy) {
  if (taken >= order.size()) return {};
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t each = my_indices(order, num_replicas, rank, policy).size();
  Indices mine;
  for (std::size_t k = taken / ranks; k < each; ++k) {
    mine.push_back(
        order[(taken + static_cast<std::size_t>(rank) + (k - taken / ranks) * ranks) %
              order.size()]);
  }
  return mine;
}

// The number that is left, without asking whether there is one.
Indices subtracts_first(Order order, std::size_t taken, int num_replicas, int rank,
                        Policy policy) {
  const std::size_t left = order.size() - taken;
  if (left == 0) return {};
  Indices mine;
  mine.reserve(left / static_cast<std::size_t>(num_replicas) + 1);
  const Indices rest = indices_after(order, taken, num_replicas, rank, policy);
  mine.insert(mine.end(), rest.begin(), rest.end());
  return mine;
}

Indices wraps_once(Order order, std::size_t taken, int num_replicas, int rank, Policy policy) {
  if (taken >= order.size()) return {};
  Indices rest = indices_after(order, taken, num_replicas, rank, Policy::exact);
  if (policy == Policy::exact) return rest;
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t left = order.size() - taken;
  if (policy == Policy::drop) {
    rest.resize(left / ranks);
  } else if (rest.size() < (left + ranks - 1) / ranks) {
    const std::size_t place = taken + static_cast<std::size_t>(rank) + rest.size() * ranks;
    if (place < 2 * order.size()) rest.push_back(order[place - order.size()]);
  }
  return rest;
}

}  // namespace

std::vector<Solution> resume_solutions() {
  const auto known = [](const char* name, const IndicesAfter& solution) {
    return Solution{"indices_after", name, checks_of_indices_after(solution)};
  };
  return {
      known("reference", indices_after),
      known("deals", deals_the_rest),
      known("starts-over", starts_over),
      known("skips-too-many", skips_too_many),
      known("own-list", skips_in_its_list),
      known("rounds-up", rounds_up),
      known("blocks", blocks_of_the_rest),
      known("pad-rest", pads_by_the_rest),
      known("whole-count", counts_the_whole_set),
      known("underflow", subtracts_first),
      known("wraps-once", wraps_once),
  };
}

}  // namespace dist::exercise
