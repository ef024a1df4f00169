// Checks of the fit: points on a line, the order of the points, equal weight for all sizes, and
// one bad time.
#include "01_send_recv/alpha_beta.hpp"
#include "tools/exercises/message_checks.hpp"

#include <random>

namespace dist::exercise {
// A latency of two microseconds and a bandwidth of ten gigabytes per second.
using FitAlphaBeta = std::function<LinkCost(std::span<const CostPoint>)>;

static LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

const LinkCost kTypical = line(2e-6, 1e-10);

// Eleven sizes from 4 B to 4 MiB.
static std::vector<CostPoint> points_on(const LinkCost& line) {
  std::vector<CostPoint> points;
  for (std::size_t bytes = 4; bytes <= 4U << 20; bytes *= 4) {
    points.push_back({bytes, line.line_seconds(bytes)});
  }
  return points;
}

// At each point, the fitted line must equal `line` within the relative `tolerance`.
static void expect_line(Trial& trial, const FitAlphaBeta& solution,
                        const std::vector<CostPoint>& points, const LinkCost& line,
                        double tolerance, const std::string& where) {
  const LinkCost got = solution(points);
  for (const auto& [bytes, measured] : points) {
    const double must = line.line_seconds(bytes);
    // The comparison is written so that NaN fails.
    if (std::abs(got.line_seconds(bytes) / must - 1) <= tolerance) continue;
    const bool exchanged =
        std::abs(got.alpha_s - line.beta_s_per_byte) <= tolerance * line.beta_s_per_byte &&
        std::abs(got.beta_s_per_byte - line.alpha_s) <= tolerance * line.alpha_s;
    const Seen seen = exchanged                                          ? Seen::elsewhere
                      : !(got.line_seconds(bytes) > 0)                   ? Seen::zero
                      : got.beta_s_per_byte > 1e3 * line.beta_s_per_byte ? Seen::too_many
                                                                         : Seen::something_else;
    return trial.wrong(
        fmt::format("{}alpha {:.4g} s and beta {:.4g} s per byte predict {:.8g} s for {} "
                    "bytes; expected alpha {:.4g} and beta {:.4g}, which predict {:.8g} s",
                    where, got.alpha_s, got.beta_s_per_byte, got.line_seconds(bytes), bytes,
                    line.alpha_s, line.beta_s_per_byte, must),
        seen);
  }
}

std::vector<Check> checks_of_fit_alpha_beta(const FitAlphaBeta& solution) {
  const std::vector<Check> checks{
      {"exact", "points on a line must give exactly that line",
       "two points determine the line: beta is the difference of their times divided by the "
       "difference of their sizes, and alpha is what remains of a time after you subtract beta "
       "times its size. The units are seconds, and seconds per byte",
       [=](Trial& trial) {
         for (const LinkCost& cost :
              {kTypical, line(5e-7, 1e-9), line(1e-4, 2e-11), line(0, 3e-10), line(7e-6, 0)}) {
           expect_line(trial, solution, points_on(cost), cost, 1e-6, "");
         }
         expect_line(trial, solution, {{8, 3e-6}, {1000008, 1.03e-4}, {2000008, 2.03e-4}},
                     line(3e-6 - 8e-10, 1e-10), 1e-6, "three points: ");
       }},
      {"any-order", "points must be allowed in any order, and sizes more than once",
       "do not assume that the first point is the smallest. Two points of the same size do not "
       "determine a line, so skip such pairs. Sizes are unsigned: 4 - 16 is a huge number, so "
       "convert them to double before you subtract",
       [=](Trial& trial) {
         std::vector<CostPoint> points = points_on(kTypical);
         std::ranges::reverse(points);
         expect_line(trial, solution, points, kTypical, 1e-6, "descending: ");
         points.insert(points.begin() + 3, points.back());
         points.push_back(points.front());
         points.push_back({0, kTypical.alpha_s});
         expect_line(trial, solution, points, kTypical, 1e-6,
                     "two sizes repeated, and 0 bytes: ");
       }},
      {"every-size-alike", "every size must count equally",
       "4 MiB takes two hundred times as long as 4 bytes, so an error of 1 % in the large time "
       "outweighs the whole small time, and alpha is lost. Compare ratios, which have no unit, "
       "at every point that there is, because sizes may lie close together. And one that is "
       "too "
       "large must not make up for one that is too small: add up absolute values",
       [=](Trial& trial) {
         for (unsigned pattern = 0; pattern < 1U << 11U; pattern += 13) {
           std::vector<CostPoint> points = points_on(kTypical);
           for (std::size_t i = 0; i < points.size(); ++i) {
             points[i].seconds *= (pattern >> i & 1U) != 0 ? 1.1 : 0.9;
           }
           expect_line(trial, solution, points, kTypical, 0.25, "all times off by 10 %: ");
         }
         std::mt19937 engine(1);  // few small sizes, and many large ones close together
         std::uniform_real_distribution<double> off(0.9, 1.1);
         for (int run = 0; run < 1000; ++run) {
           std::vector<CostPoint> points;
           for (const std::size_t bytes : {4, 64, 1024}) points.push_back({bytes, 0});
           for (std::size_t mib = 1; mib <= 8; ++mib) points.push_back({mib << 20U, 0});
           for (auto& [bytes, seconds] : points) {
             seconds = kTypical.line_seconds(bytes) * off(engine);
           }
           expect_line(trial, solution, points, kTypical, 0.25,
                       "4 B, 64 B, 1 KiB and 1 to 8 MiB, each time up to 10 % off: ");
         }
       }},
      {"outlier",
       "one bad time must not change the line much",
       "one point far from the line dominates a sum of squares, and a line drawn through that "
       "point is wrong: the other ten must outvote it",
       [=](Trial& trial) {
         Trial tries[] = {Trial(trial.comm()), Trial(trial.comm())};
         for (std::size_t k = 0; k < 2; ++k) {
           const double factor = k == 0 ? 50.0 : 1 / 50.0;
           std::vector<CostPoint> points = points_on(kTypical);
           for (std::size_t i = 0; i < points.size(); ++i) {
             const double right = points[i].seconds;
             points[i].seconds *= factor;
             expect_line(tries[k], solution, points, kTypical, 0.05,
                         fmt::format("the time of {} bytes multiplied by {}: ", points[i].bytes,
                                     factor));
             points[i].seconds = right;
           }
         }
         const bool one_way = tries[0].mistake().empty() != tries[1].mistake().empty();
         for (const Trial& tried : tries) {
           trial.wrong(tried.mistake(), one_way ? Seen::uneven : tried.seen());
         }
       },
       {{Seen::uneven,
         "one point far from the line must not dominate. Here, only times that are too long do "
         "so, or only those that are too short: a ratio such as line / time is lopsided (50 "
         "times too short counts 49, and a line far too low at most 1), and squares make it "
         "worse. |log(line / time)| treats both alike"}}},
  };
  return with_hints(
      checks,
      {{Seen::elsewhere, "alpha and beta have changed places"},
       {Seen::zero,
        "no message takes a negative time, or none, and the logarithm of such a time is NaN, "
        "with which each comparison is false: leave such lines out"},
       {Seen::too_many,
        "this is no time per byte: is it a slope of logarithms, or in other units? They are "
        "seconds, and seconds per byte"}});
}

}  // namespace dist::exercise
