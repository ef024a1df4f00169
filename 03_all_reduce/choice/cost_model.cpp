#include "03_all_reduce/choice/cost_model.hpp"

#include <bit>

namespace dist {

// The surplus ranks beyond the largest power of two send their numbers and receive the result.
static double fold(double n, int p, const StepCosts& costs) {
  return PowerOfTwo(p).surplus == 0 ? 0.0 : 2 * costs.message(n) + costs.add(n);
}

// How many ranks of a host send over its link at once, in the rounds of the two algorithms
// below that pair the ranks of two hosts. The model takes every round for one of these.
static double ranks_per_link(int p, const StepCosts& costs) {
  return costs.hosts == 1 ? 1.0 : static_cast<double>(p) / costs.hosts;
}

static double recursive_doubling(double n, int p, const StepCosts& costs) {
  const int rounds =
      static_cast<int>(std::bit_width(static_cast<unsigned>(PowerOfTwo(p).count))) - 1;
  const double sharing = ranks_per_link(p, costs);
  return fold(n, p, costs) + rounds * (costs.exchange(sharing * n) + costs.add(n));
}

static double ring(double n, int p, const StepCosts& costs) {
  return (p - 1) * (2 * costs.exchange(n / p) + costs.add(n / p));
}

static double pipelined_ring(double n, int p, const StepCosts& costs) {
  // Without overlap: on one host, the same core adds and copies. An upper bound across hosts.
  const auto segments = static_cast<double>(ring_segments(static_cast<std::size_t>(n), p));
  return segments * ring(n / segments, p, costs);
}

static double rabenseifner(double n, int p, const StepCosts& costs) {
  const double sharing = ranks_per_link(p, costs);
  double seconds = fold(n, p, costs);
  double half = n / 2;
  for (int distance = PowerOfTwo(p).count / 2; distance >= 1; distance /= 2, half /= 2) {
    seconds += 2 * costs.exchange(sharing * half) + costs.add(half);
  }
  return seconds;
}

static double hierarchical(double n, const StepCosts& costs) {
  // What a host's memory typically takes, for registered memory: each of the two halves inside
  // the host has two barriers, and all ranks together move the tensor once.
  constexpr double kBarrier = 0.5e-6;
  constexpr double kMovePerByte = 5e-11;
  const double inside = 2 * (2 * kBarrier + n * kMovePerByte);
  // The ranks of a host each send their part at the same time. They share the host's link,
  // which therefore carries as much as if one rank per host sent everything.
  const double across = std::has_single_bit(static_cast<unsigned>(costs.hosts))
                            ? rabenseifner(n, costs.hosts, costs)
                            : ring(n, costs.hosts, costs);
  return inside + across;
}

// Without curves, the line: unlike LinkCost's functions, it also takes fractions of a byte,
// which keep the formulas smooth.
double StepCosts::message(double bytes) const {
  return link.message.empty() ? link.alpha_s + bytes * link.beta_s_per_byte
                              : link.message_seconds(static_cast<std::size_t>(bytes));
}
double StepCosts::exchange(double bytes) const {
  return link.exchange.empty() ? link.alpha_s + bytes * link.beta_s_per_byte
                               : link.exchange_seconds(static_cast<std::size_t>(bytes));
}

StepCosts step_costs(const std::optional<LinkCost>& measured, int hosts) {
  StepCosts costs;
  costs.hosts = hosts;
  if (measured) {
    costs.link = *measured;
  } else if (hosts > 1) {
    costs.link.alpha_s = 20e-6;
    costs.link.beta_s_per_byte = 8e-10;
  }
  return costs;
}

std::optional<double> predict_all_reduce(AllReduceAlgorithm algorithm, double bytes, int ranks,
                                         const StepCosts& costs) {
  switch (algorithm) {
    case AllReduceAlgorithm::naive:
      // Everything passes through rank 0, one message after the other.
      return (ranks - 1) * (2 * costs.message(bytes) + costs.add(bytes));
    case AllReduceAlgorithm::recursive_doubling: return recursive_doubling(bytes, ranks, costs);
    case AllReduceAlgorithm::ring: return ring(bytes, ranks, costs);
    case AllReduceAlgorithm::ring_pipelined: return pipelined_ring(bytes, ranks, costs);
    case AllReduceAlgorithm::rabenseifner: return rabenseifner(bytes, ranks, costs);
    case AllReduceAlgorithm::hierarchical:
      if (costs.hosts == 1 || costs.hosts == ranks) return std::nullopt;
      return hierarchical(bytes, costs);
    case AllReduceAlgorithm::shared_memory:
    case AllReduceAlgorithm::mpi:
    case AllReduceAlgorithm::automatic: return std::nullopt;
  }
  return std::nullopt;
}

AllReduceAlgorithm auto_choice(double bytes, int ranks, const StepCosts& costs,
                               bool host_memory) {
  if (host_memory && costs.hosts == 1) return AllReduceAlgorithm::shared_memory;
  AllReduceAlgorithm best = AllReduceAlgorithm::recursive_doubling;
  for (const auto& [name, other] : kAllReduceAlgorithms) {
    if (other == AllReduceAlgorithm::hierarchical && !host_memory) continue;
    const auto seconds = predict_all_reduce(other, bytes, ranks, costs);
    if (seconds && *seconds < *predict_all_reduce(best, bytes, ranks, costs)) best = other;
  }
  return best;
}

}  // namespace dist
