// Checks of the choice between ring and recursive doubling, compared with the lesson's cost
// model. Lesson 3's tests compare that model with the README's formulas.
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/choice/cost_model.hpp"
#include "tools/exercises/message_checks.hpp"

#include <array>

namespace dist::exercise {
namespace {

// The arguments are bytes, ranks, alpha, beta, gamma.
using Choice = std::function<AllReduceAlgorithm(double, int, double, double, double)>;

struct Link {
  double alpha_s;
  double beta_s_per_byte;
  double gamma_s_per_byte;
};

constexpr Link kNoAdding{3e-6, 2e-10, 0};

double seconds(AllReduceAlgorithm algorithm, double bytes, int ranks, const Link& link) {
  StepCosts costs;
  costs.link.alpha_s = link.alpha_s;
  costs.link.beta_s_per_byte = link.beta_s_per_byte;
  costs.gamma_s_per_byte = link.gamma_s_per_byte;
  return *predict_all_reduce(algorithm, bytes, ranks, costs);
}

// The ring's time minus recursive doubling's: negative if the ring is faster, and linear in
// `bytes`.
double difference(double bytes, int ranks, const Link& link) {
  return seconds(AllReduceAlgorithm::ring, bytes, ranks, link) -
         seconds(AllReduceAlgorithm::recursive_doubling, bytes, ranks, link);
}

// The size at which both algorithms take the same time; nullopt if one is always faster.
std::optional<double> crossover_bytes(int ranks, const Link& link) {
  const double at_0 = difference(0, ranks, link);
  const double per_byte = (difference(1e9, ranks, link) - at_0) / 1e9;
  if (!(at_0 > 0 && per_byte < 0)) return std::nullopt;
  return -at_0 / per_byte;
}

void expect_faster(Trial& trial, const Choice& solution, double bytes, int ranks,
                   const Link& link) {
  const double ring_loses_by = difference(bytes, ranks, link);
  const double of = seconds(AllReduceAlgorithm::ring, bytes, ranks, link);
  if (std::abs(ring_loses_by) <= 1e-9 * of) return;  // practically equal
  const auto must =
      ring_loses_by < 0 ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
  const AllReduceAlgorithm chosen =
      solution(bytes, ranks, link.alpha_s, link.beta_s_per_byte, link.gamma_s_per_byte);
  trial.expect(chosen == must,
               "{:.0f} bytes on {} ranks, alpha {:g} s, beta {:g} and gamma {:g} s per byte: "
               "the ring takes {:.4g} us, recursive doubling {:.4g} us, but {} was chosen",
               bytes, ranks, link.alpha_s, link.beta_s_per_byte, link.gamma_s_per_byte,
               1e6 * of, 1e6 * (of - ring_loses_by), to_string(chosen));
}

// Tests sizes 1 % on either side of the crossover, and sizes far from it.
void expect_right_around_the_crossover(Trial& trial, const Choice& solution,
                                       std::span<const int> ranks, const Link& link) {
  for (const int n : ranks) {
    const double bytes = crossover_bytes(n, link).value_or(1e5);
    for (const double factor : {0.0, 0.1, 0.99, 1.01, 10.0, 1e4}) {
      expect_faster(trial, solution, factor * bytes, n, link);
    }
  }
}

constexpr std::array kPowersOfTwo{2, 4, 8, 64, 1024};
constexpr std::array kOtherNumbers{3, 5, 6, 7, 9, 31, 33, 100, 1000};

}  // namespace

std::vector<Check> checks_of_choose_all_reduce(const Choice& solution) {
  // Around the crossover of each of these links.
  const auto around = [=](std::vector<Link> links, std::span<const int> ranks) {
    return [=](Trial& trial) {
      for (const Link& link : links) {
        expect_right_around_the_crossover(trial, solution, ranks, link);
      }
    };
  };
  return {
      {"one-rank", "a single rank must get one of the two algorithms",
       "a single rank sends nothing, so both formulas give 0. Either of the two algorithms "
       "will do, but no other",
       [=](Trial& trial) {
         const AllReduceAlgorithm chosen = solution(1000, 1, 1e-6, 1e-10, 1e-11);
         trial.expect(chosen == AllReduceAlgorithm::ring ||
                          chosen == AllReduceAlgorithm::recursive_doubling,
                      "{} was chosen", to_string(chosen));
       }},
      {"nothing-to-send", "for 0 bytes, it must choose the algorithm with fewer messages",
       "for 0 bytes, only alpha counts: the ring sends 2 (N - 1) messages, and recursive "
       "doubling sends log2 N, which is always fewer",
       [=](Trial& trial) {
         for (const int ranks : kPowersOfTwo)
           expect_faster(trial, solution, 0, ranks, kNoAdding);
       }},
      {"no-latency", "without latency, it must choose the algorithm that sends fewer bytes",
       "the ring sends 2 (N - 1) chunks of n / N bytes, less than 2 n in total. Recursive "
       "doubling sends the whole tensor log2 N times. In C++, (N - 1) / N is 0 for integers, "
       "and n / N is rounded down",
       [=](Trial& trial) {
         for (const int ranks : {4, 8, 64, 1024}) {
           expect_faster(trial, solution, 1e6, ranks, {0, 2e-10, 0});
         }
       }},
      {"crossover", "the choice must change at the size where the two formulas are equal",
       "compute both times, with the page's formulas, and compare them: the size at which they "
       "are equal depends on N, alpha and beta. n is in bytes, and in C++, (N - 1) / N is 0 "
       "for "
       "integers",
       around({kNoAdding, {1e-6, 1e-10, 0}, {5e-5, 1e-8, 0}}, kPowersOfTwo)},
      {"adding", "the time for adding must be included",
       "adding costs gamma per byte: recursive doubling adds the whole tensor log2 N times, "
       "and the ring adds one chunk in each of the first N - 1 steps, which is (N - 1) / N of "
       "the tensor in total; in C++, that is 0 for whole numbers",
       around({{3e-6, 2e-10, 2e-9}, {3e-6, 2e-10, 5e-11}, {1e-6, 0, 1e-10}}, kPowersOfTwo)},
      {"surplus-ranks", "the choice must be right if the number of ranks is not a power of two",
       "recursive doubling runs on std::bit_floor(N) ranks, the largest power of two up to N. "
       "The other ranks send their tensor first and receive the result at the end, which adds "
       "2 (alpha + n beta) + n gamma for any such N",
       around({kNoAdding, {3e-6, 2e-10, 2e-9}}, kOtherNumbers)},
  };
}

}  // namespace dist::exercise
