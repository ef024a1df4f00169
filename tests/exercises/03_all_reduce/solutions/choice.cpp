// Right and wrong choices between ring and recursive doubling.
#include "tests/exercises/03_all_reduce/reference/choose_all_reduce.hpp"
#include "tests/exercises/03_all_reduce/solutions/solutions.hpp"

#include <cmath>

namespace dist::exercise {
namespace {

constexpr auto kRing = AllReduceAlgorithm::ring;
constexpr auto kDoubling = AllReduceAlgorithm::recursive_doubling;

AllReduceAlgorithm the_cheaper(double ring, double doubling) {
  return ring < doubling ? kRing : kDoubling;
}

double doublings(int ranks) {
  return std::floor(std::log2(ranks));
}

bool is_power_of_two(int ranks) {
  return (ranks & (ranks - 1)) == 0;
}

// Recursive doubling as it must be: all mistakes below but two are in the ring.
double doubling_seconds(double n, int ranks, double alpha, double beta, double gamma) {
  const double surplus = is_power_of_two(ranks) ? 0 : 1;
  return (doublings(ranks) + 2 * surplus) * (alpha + n * beta) +
         (doublings(ranks) + surplus) * n * gamma;
}

// Right, differently written: solved for the size at which the lines cross.
AllReduceAlgorithm by_crossover(double n, int ranks, double alpha, double beta, double gamma) {
  const double p = ranks;
  const double surplus = is_power_of_two(ranks) ? 0 : 1;
  const double messages = 2 * (p - 1) - doublings(ranks) - 2 * surplus;
  const double per_byte = (doublings(ranks) + 2 * surplus - 2 * (p - 1) / p) * beta +
                          (doublings(ranks) + surplus - (p - 1) / p) * gamma;
  return n * per_byte > messages * alpha ? kRing : kDoubling;
}

AllReduceAlgorithm always_the_ring(double, int, double, double, double) {
  return kRing;
}

AllReduceAlgorithm the_dearer(double n, int ranks, double alpha, double beta, double gamma) {
  return choose_all_reduce(n, ranks, alpha, beta, gamma) == kRing ? kDoubling : kRing;
}

AllReduceAlgorithm from_a_fixed_size(double n, int, double, double, double) {
  return n < 65536 ? kDoubling : kRing;
}

AllReduceAlgorithm whole_tensor_per_step(double n, int ranks, double alpha, double beta,
                                         double gamma) {
  const double ring = (ranks - 1) * (2 * (alpha + n * beta) + n * gamma);
  return the_cheaper(ring, doubling_seconds(n, ranks, alpha, beta, gamma));
}

AllReduceAlgorithm half_the_messages(double n, int ranks, double alpha, double beta,
                                     double gamma) {
  const double share = (ranks - 1.0) / ranks * n;
  const double ring = (ranks - 1) * alpha + 2 * share * beta + share * gamma;
  return the_cheaper(ring, doubling_seconds(n, ranks, alpha, beta, gamma));
}

AllReduceAlgorithm divides_whole_numbers(double n, int ranks, double alpha, double beta,
                                         double gamma) {
  const double share = (ranks - 1) / ranks * n;
  const double ring = 2 * (ranks - 1) * alpha + 2 * share * beta + share * gamma;
  return the_cheaper(ring, doubling_seconds(n, ranks, alpha, beta, gamma));
}

AllReduceAlgorithm counts_elements(double n, int ranks, double alpha, double beta,
                                   double gamma) {
  return choose_all_reduce(n / 4, ranks, alpha, beta, gamma);
}

AllReduceAlgorithm adding_is_free(double n, int ranks, double alpha, double beta, double) {
  return choose_all_reduce(n, ranks, alpha, beta, 0);
}

AllReduceAlgorithm adds_in_both_halves(double n, int ranks, double alpha, double beta,
                                       double gamma) {
  const double share = (ranks - 1.0) / ranks * n;
  const double ring = 2 * (ranks - 1) * alpha + 2 * share * (beta + gamma);
  return the_cheaper(ring, doubling_seconds(n, ranks, alpha, beta, gamma));
}

AllReduceAlgorithm rounds_up(double n, int ranks, double alpha, double beta, double gamma) {
  const double share = (ranks - 1.0) / ranks * n;
  const double ring = 2 * (ranks - 1) * alpha + 2 * share * beta + share * gamma;
  return the_cheaper(ring, std::ceil(std::log2(ranks)) * (alpha + n * beta + n * gamma));
}

AllReduceAlgorithm names_a_third(double n, int ranks, double alpha, double beta, double gamma) {
  if (ranks == 1) return AllReduceAlgorithm::naive;  // there is nothing to do
  return choose_all_reduce(n, ranks, alpha, beta, gamma);
}

}  // namespace

std::vector<Solution> choice_solutions() {
  const auto of = [](const char* name, const Choice& solution) {
    return Solution{"choose_all_reduce", name, checks_of_choose_all_reduce(solution)};
  };
  return {
      of("reference", choose_all_reduce),
      of("by-crossover", by_crossover),
      of("a-third", names_a_third),
      of("always-ring", always_the_ring),
      of("the-dearer", the_dearer),
      of("whole-tensor", whole_tensor_per_step),
      of("fixed-size", from_a_fixed_size),
      of("half-the-messages", half_the_messages),
      of("whole-numbers", divides_whole_numbers),
      of("elements", counts_elements),
      of("adding-is-free", adding_is_free),
      of("adds-twice", adds_in_both_halves),
      of("rounds-up", rounds_up),
  };
}

}  // namespace dist::exercise
