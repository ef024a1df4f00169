// Right and wrong samplers. Each wrong one is a mistake that is easily made; solutions.txt says
// which check finds it.
#include "02_broadcast/random.hpp"
#include "tests/exercises/04_distributed_sampler/reference/my_indices.hpp"
#include "tests/exercises/04_distributed_sampler/solutions/solutions.hpp"

#include <algorithm>

namespace dist::exercise {
namespace {

using Order = std::span<const std::size_t>;

// Where the turns end.
std::size_t end_of(std::size_t samples, std::size_t ranks, Policy policy) {
  if (policy == Policy::exact) return samples;
  const std::size_t rounded_up = policy == Policy::pad ? ranks - 1 : 0;
  return (samples + rounded_up) / ranks * ranks;
}

// Right, differently written: a padded or shortened copy, as PyTorch does it in Python.
Indices pads_a_copy(Order order, int num_replicas, int rank, Policy policy) {
  std::vector<std::size_t> list(order.begin(), order.end());
  const std::size_t end = end_of(order.size(), static_cast<std::size_t>(num_replicas), policy);
  while (list.size() < end) {
    const std::size_t more = std::min(end - list.size(), order.size());
    list.insert(list.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(more));
  }
  list.resize(end);
  Indices mine;
  for (std::size_t place = 0; place < end; ++place) {
    if (static_cast<int>(place % static_cast<std::size_t>(num_replicas)) == rank) {
      mine.push_back(list[place]);
    }
  }
  return mine;
}

// Walks r, r + N, ... to `end` and takes what at(place) says.
template <class At>
Indices walk(int num_replicas, int rank, std::size_t end, const At& at) {
  Indices mine;
  const auto ranks = static_cast<std::size_t>(num_replicas);
  for (auto place = static_cast<std::size_t>(rank); place < end; place += ranks) {
    mine.push_back(at(place));
  }
  return mine;
}

Indices walk(Order order, int num_replicas, int rank, std::size_t end) {
  return walk(num_replicas, rank, end,
              [&](std::size_t place) { return order[place % order.size()]; });
}

Indices right(Order order, int num_replicas, int rank, Policy policy) {
  return walk(order, num_replicas, rank,
              end_of(order.size(), static_cast<std::size_t>(num_replicas), policy));
}

Indices places_only(Order order, int num_replicas, int rank, Policy policy) {
  return walk(num_replicas, rank,
              end_of(order.size(), static_cast<std::size_t>(num_replicas), policy),
              [&](std::size_t place) { return place % order.size(); });
}

Indices a_seed_per_rank(Order order, int num_replicas, int rank, Policy policy) {
  Generator generator(static_cast<std::uint64_t>(rank));
  Indices mixed;
  for (const std::size_t place : randperm(order.size(), generator)) {
    mixed.push_back(order[place]);
  }
  return right(mixed, num_replicas, rank, policy);
}

Indices blocks(Order order, int num_replicas, int rank, Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t each = end_of(order.size(), ranks, policy) / ranks;
  Indices mine;
  for (std::size_t i = 0; i < each; ++i) {
    mine.push_back(order[(static_cast<std::size_t>(rank) * each + i) % order.size()]);
  }
  return mine;
}

Indices never_pads(Order order, int num_replicas, int rank, Policy policy) {
  return right(order, num_replicas, rank, policy == Policy::pad ? Policy::exact : policy);
}

Indices pads_by_minus_one(Order order, int num_replicas, int rank, Policy policy) {
  return walk(num_replicas, rank,
              end_of(order.size(), static_cast<std::size_t>(num_replicas), policy),
              [&](std::size_t place) {
                return place < order.size() ? order[place] : static_cast<std::size_t>(-1);
              });
}

Indices pads_by_the_last(Order order, int num_replicas, int rank, Policy policy) {
  return walk(
      num_replicas, rank, end_of(order.size(), static_cast<std::size_t>(num_replicas), policy),
      [&](std::size_t place) { return place < order.size() ? order[place] : order.back(); });
}

// Repeats this rank's own first sample, not the order's.
Indices pads_by_its_own(Order order, int num_replicas, int rank, Policy policy) {
  Indices mine = never_pads(order, num_replicas, rank, policy);
  const auto ranks = static_cast<std::size_t>(num_replicas);
  const std::size_t each = (order.size() + ranks - 1) / ranks;
  if (policy == Policy::pad && !mine.empty() && mine.size() < each)
    mine.push_back(mine.front());
  return mine;
}

Indices drop_pads(Order order, int num_replicas, int rank, Policy policy) {
  return right(order, num_replicas, rank, policy == Policy::drop ? Policy::pad : policy);
}

// n / N, and one less: where the ranks divide the samples, too.
Indices drops_always(Order order, int num_replicas, int rank, Policy policy) {
  if (policy != Policy::drop || order.empty()) return right(order, num_replicas, rank, policy);
  return right(order.first(order.size() - 1), num_replicas, rank, policy);
}

Indices exact_pads(Order order, int num_replicas, int rank, Policy policy) {
  return right(order, num_replicas, rank, policy == Policy::exact ? Policy::pad : policy);
}

Indices exact_drops(Order order, int num_replicas, int rank, Policy policy) {
  return right(order, num_replicas, rank, policy == Policy::exact ? Policy::drop : policy);
}

// The order's beginning once more; enough unless there are fewer samples than half the ranks.
Indices wraps_once(Order order, int num_replicas, int rank, Policy policy) {
  const auto ranks = static_cast<std::size_t>(num_replicas);
  std::vector<std::size_t> list(order.begin(), order.end());
  list.insert(list.end(), order.begin(), order.end());
  return walk(num_replicas, rank, std::min(list.size(), end_of(order.size(), ranks, policy)),
              [&](std::size_t place) { return list[place]; });
}

}  // namespace

std::vector<Solution> sampler_solutions() {
  const auto known = [](const char* name, const MyIndices& solution) {
    return Solution{"my_indices", name, checks_of_my_indices(solution)};
  };
  return {
      known("reference", my_indices),
      known("pads-a-copy", pads_a_copy),
      known("places", places_only),
      known("rank-seed", a_seed_per_rank),
      known("blocks", blocks),
      known("pad-none", never_pads),
      known("pad-minus-one", pads_by_minus_one),
      known("pad-last", pads_by_the_last),
      known("pad-own", pads_by_its_own),
      known("drop-pads", drop_pads),
      known("drop-always", drops_always),
      known("exact-pads", exact_pads),
      known("exact-drops", exact_drops),
      known("wraps-once", wraps_once),
  };
}

}  // namespace dist::exercise
