// Checks of the choice between ring and recursive doubling, compared with the lesson's cost
// model. Lesson 3's tests compare that model with the README's formulas.
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/choice/cost_model.hpp"
#include "tools/exercises/message_checks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

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

// A call of the solution, and what it has chosen.
struct Chosen {
  double bytes;
  int ranks;
  Link link;
  AllReduceAlgorithm algorithm;
};

// A frequent slip in the formulas: `text` says what the result is then, and `ring` and
// `doubling` are the two times, for n bytes on N ranks, with k doublings, and 1 or 0 for
// surplus ranks.
struct Slip {
  std::string text;
  using Time = std::function<double(double n, double N, double k, double surplus, const Link&)>;
  Time ring, doubling;
};

std::vector<Slip> slips() {
  const Slip::Time ring = [](double n, double N, double, double, const Link& l) {
    return (N - 1) * (2 * (l.alpha_s + n / N * l.beta_s_per_byte) + n / N * l.gamma_s_per_byte);
  };
  const Slip::Time doubling = [](double n, double, double k, double s, const Link& l) {
    const double whole = l.alpha_s + n * l.beta_s_per_byte, adds = n * l.gamma_s_per_byte;
    return k * (whole + adds) + s * (2 * whole + adds);
  };
  const auto with_gamma = [](const Slip::Time& of, double factor) -> Slip::Time {
    return [=](double n, double N, double k, double s, Link l) {
      l.gamma_s_per_byte *= factor;
      return of(n, N, k, s, l);
    };
  };
  const auto doubling_of = [=](auto steps, auto surplus) -> Slip::Time {
    return [=](double n, double N, double k, double s, const Link& l) {
      return doubling(n, N, steps(N, k, s), surplus(N, k, s), l);
    };
  };
  return {
      {"the ring sent N - 1 messages: it has two halves of N - 1 steps each",
       [=](double n, double N, double, double, const Link& l) {
         return (N - 1) * (l.alpha_s + n / N * l.beta_s_per_byte + n / N * l.gamma_s_per_byte);
       },
       doubling},
      {"the ring paid N - 1 times alpha: each of its 2 (N - 1) messages pays one",
       [=](double n, double N, double k, double s, const Link& l) {
         return ring(n, N, k, s, l) - (N - 1) * l.alpha_s;
       },
       doubling},
      {"the ring had N steps in each half instead of N - 1",
       [=](double n, double N, double k, double s, const Link& l) {
         return ring(n, N, k, s, l) * N / (N - 1);
       },
       doubling},
      {"the ring sent the whole tensor in each step: a chunk has n / N bytes",
       [=](double n, double N, double, double, const Link& l) {
         return (N - 1) * (2 * (l.alpha_s + n * l.beta_s_per_byte) + n * l.gamma_s_per_byte);
       },
       doubling},
      {"the ring added in both halves: only the reduce-scatter adds", with_gamma(ring, 2),
       doubling},
      {"the ring added the whole tensor in each step: it adds chunks of n / N bytes",
       [=](double n, double N, double k, double s, const Link& l) {
         return ring(n, N, k, s, l) + (N - 1) * (n - n / N) * l.gamma_s_per_byte;
       },
       doubling},
      {"neither algorithm had to add: gamma is missing", with_gamma(ring, 0),
       with_gamma(doubling, 0)},
      {"the ring had nothing to add: each of its first N - 1 steps adds a chunk",
       with_gamma(ring, 0), doubling},
      {"recursive doubling had nothing to add: each of its steps adds the whole tensor", ring,
       with_gamma(doubling, 0)},
      {"recursive doubling added once: each of its log2 N steps adds the whole tensor", ring,
       [=](double n, double N, double k, double s, const Link& l) {
         return doubling(n, N, k, s, l) - (k - 1) * n * l.gamma_s_per_byte;
       }},
      {"recursive doubling sent twice in each step: both partners send at the same time", ring,
       doubling_of([](double, double k, double) { return 2 * k; },
                   [](double, double, double s) { return s; })},
      {"a power of two had surplus ranks, too: N itself counts as \"up to N\"", ring,
       doubling_of([](double, double k, double s) { return s > 0 ? k : k - 1; },
                   [](double, double, double) { return 1.0; })},
      {"there were one doubling more: std::bit_width(8) is 4, and log2 8 is 3", ring,
       doubling_of([](double, double k, double) { return k + 1; },
                   [](double, double, double s) { return s; })},
      {"surplus ranks cost nothing", ring,
       doubling_of([](double, double k, double) { return k; },
                   [](double, double, double) { return 0.0; })},
      {"surplus ranks cost one more step, as if log2 N were rounded up: they send their "
       "tensor, and "
       "also receive the result",
       ring,
       doubling_of([](double, double k, double s) { return k + s; },
                   [](double, double, double) { return 0.0; })},
      {"log2 N was a number with a fraction: only bit_floor(N) ranks take part in the doubling",
       ring,
       doubling_of([](double N, double, double) { return std::log2(N); },
                   [](double, double, double) { return 0.0; })},
      {"log2 N was ln N: std::log is the natural logarithm", ring,
       doubling_of([](double, double k, double) { return k * std::log(2.0); },
                   [](double, double, double s) { return s; })},
      {"surplus ranks had nothing to add: their neighbours add the whole tensor once", ring,
       [=](double n, double N, double k, double s, const Link& l) {
         return doubling(n, N, k, s, l) - s * n * l.gamma_s_per_byte;
       }},
      {"they were turned around", doubling, ring},
  };
}

Chosen chosen_by(const Choice& solution, double bytes, int ranks, const Link& link) {
  return {bytes, ranks, link,
          solution(bytes, ranks, link.alpha_s, link.beta_s_per_byte, link.gamma_s_per_byte)};
}

// Sizes 1 % on either side of the crossover, and sizes far from it.
std::vector<Chosen> around_the_crossover(const Choice& solution, std::span<const int> ranks,
                                         const std::vector<Link>& links) {
  std::vector<Chosen> all;
  for (const Link& link : links) {
    for (const int n : ranks) {
      const double bytes = crossover_bytes(n, link).value_or(1e5);
      for (const double factor : {0.0, 0.1, 0.99, 1.01, 10.0, 1e6}) {
        all.push_back(chosen_by(solution, factor * bytes, n, link));
      }
    }
  }
  return all;
}

constexpr std::array kPowersOfTwo{2, 4, 8, 64, 1024};
constexpr std::array kOtherNumbers{3, 5, 6, 7, 9, 31, 33, 100, 1000};

// The slip or the two slips that explain all choices for these links and numbers of ranks, if
// any does, also at sizes between.
std::string slip_in(const Choice& solution, const std::vector<Chosen>& all) {
  std::vector<Chosen> more = all;
  for (const Chosen& one : all) {
    for (const double factor : {0.2, 0.35, 0.5, 0.7, 0.85, 1.2, 1.5, 2.0, 3.0, 5.0}) {
      more.push_back(chosen_by(solution, one.bytes * factor, one.ranks, one.link));
    }
  }
  const bool one_for_all = std::ranges::all_of(
      more, [&](const Chosen& one) { return one.algorithm == more.front().algorithm; });
  if (one_for_all) {  // of the formulas, these sizes say nothing
    more = around_the_crossover(solution, kPowersOfTwo, {kNoAdding});
  }
  std::vector<std::string> found;
  for (const Slip& slip : slips()) {
    const bool explains = std::ranges::all_of(more, [&](const Chosen& one) {
      const auto newranks = std::bit_floor(static_cast<unsigned>(one.ranks));
      const double k = std::bit_width(newranks) - 1;
      const double s = newranks == static_cast<unsigned>(one.ranks) ? 0 : 1;
      const double ring = slip.ring(one.bytes, one.ranks, k, s, one.link);
      const double doubling = slip.doubling(one.bytes, one.ranks, k, s, one.link);
      return std::abs(ring - doubling) <= 1e-9 * ring ||
             (ring < doubling) == (one.algorithm == AllReduceAlgorithm::ring);
    });
    if (explains) found.push_back(slip.text);
  }
  return found.empty() || found.size() > 2
             ? ""
             : "; your choices are as if " + join(found, ", or as if ");
}

void expect_faster(Trial& trial, const Choice& solution, const std::vector<Chosen>& all) {
  for (const auto& [bytes, ranks, link, algorithm] : all) {
    const double ring_loses_by = difference(bytes, ranks, link);
    const double of = seconds(AllReduceAlgorithm::ring, bytes, ranks, link);
    if (std::abs(ring_loses_by) <= 1e-9 * of) continue;  // practically equal
    const auto must =
        ring_loses_by < 0 ? AllReduceAlgorithm::ring : AllReduceAlgorithm::recursive_doubling;
    if (algorithm == must) continue;
    const std::string slip = slip_in(solution, all);
    return trial.wrong(
        fmt::format("{:.0f} bytes on {} ranks, alpha {:g} s, beta {:g} and gamma {:g} s per "
                    "byte: the ring "
                    "takes {:.4g} us, recursive doubling {:.4g} us, but {} was chosen{}",
                    bytes, ranks, link.alpha_s, link.beta_s_per_byte, link.gamma_s_per_byte,
                    1e6 * of, 1e6 * (of - ring_loses_by), to_string(algorithm), slip),
        slip.empty() ? Seen::something_else : Seen::explained);
  }
}

}  // namespace

std::vector<Check> checks_of_choose_all_reduce(const Choice& solution) {
  const auto around = [=](std::vector<Link> links, std::span<const int> ranks) {
    return [=](Trial& trial) {
      expect_faster(trial, solution, around_the_crossover(solution, ranks, links));
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
         std::vector<Chosen> all;
         for (const int ranks : kPowersOfTwo) {
           all.push_back(chosen_by(solution, 0, ranks, kNoAdding));
         }
         expect_faster(trial, solution, all);
       }},
      {"no-latency", "without latency, it must choose the algorithm that sends fewer bytes",
       "the ring sends 2 (N - 1) chunks of n / N bytes, less than 2 n in total. Recursive "
       "doubling sends the whole tensor log2 N times. In C++, (N - 1) / N is 0 for integers, "
       "and n / N is rounded down",
       [=](Trial& trial) {
         std::vector<Chosen> all;
         for (const int ranks : {4, 8, 64, 1024}) {
           all.push_back(chosen_by(solution, 1e6, ranks, {0, 2e-10, 0}));
         }
         expect_faster(trial, solution, all);
       }},
      {"crossover", "at each size, the choice must be the one that takes less time",
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
