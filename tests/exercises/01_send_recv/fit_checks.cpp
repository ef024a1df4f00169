// The fit: exact where that is possible, each size alike, and one bad time.
#include "tests/exercises/01_send_recv/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dist::exercise {
namespace {

struct Line {
  double alpha;
  double beta;
  double at(std::size_t bytes) const { return alpha + beta * static_cast<double>(bytes); }
};

// Two microseconds and ten gigabytes per second.
constexpr Line kTypical{2e-6, 1e-10};

// 4 B to 4 MiB, eleven sizes.
std::vector<CostPoint> points_on(const Line& line) {
  std::vector<CostPoint> points;
  for (std::size_t bytes = 4; bytes <= 4U << 20; bytes *= 4) {
    points.push_back({bytes, line.at(bytes)});
  }
  return points;
}

// The fitted line may be off by `tolerance` at the points of `line`.
void expect_line(Trial& trial, const FitAlphaBeta& solution,
                 const std::vector<CostPoint>& points, const Line& line, double tolerance,
                 const std::string& where) {
  const LinkCost fit = solution(points);
  const Line got{fit.alpha_s, fit.beta_s_per_byte};
  for (const CostPoint& point : points) {
    const double must = line.at(point.bytes);
    // Written so that NaN is wrong.
    if (std::abs(got.at(point.bytes) / must - 1) <= tolerance) continue;
    return trial.wrong(fmt::format(
        "{}alpha {:.4g} s, beta {:.4g} s per byte, which makes {:.4g} s of {} bytes; alpha "
        "{:.4g}, beta {:.4g} make {:.4g} s",
        where, got.alpha, got.beta, got.at(point.bytes), point.bytes, line.alpha, line.beta,
        must));
  }
}

}  // namespace

std::vector<Check> checks_of_fit_alpha_beta(const FitAlphaBeta& solution) {
  return {
      {"exact", "points on a line give that line",
       "two points tell the line: beta is the difference of their times by that of their "
       "bytes, alpha what is left of a time without its bytes. Seconds, and seconds per byte",
       [=](Trial& trial) {
         for (const Line& line :
              {kTypical, Line{5e-7, 1e-9}, Line{1e-4, 2e-11}, Line{0, 3e-10}, Line{7e-6, 0}}) {
           expect_line(trial, solution, points_on(line), line, 1e-6, "");
         }
         expect_line(trial, solution, {{8, 3e-6}, {1000008, 1.03e-4}, {2000008, 2.03e-4}},
                     {3e-6 - 8e-10, 1e-10}, 1e-6, "three points: ");
       },
       ""},
      {"any-order", "the order of the points does not matter, nor a size that is there twice",
       "do not take the first point for the smallest. Two points of the same size tell no "
       "line: leave such pairs out. And bytes are unsigned: 4 - 16 of them is a huge number, "
       "so turn them into double before you subtract",
       [=](Trial& trial) {
         std::vector<CostPoint> points = points_on(kTypical);
         std::ranges::reverse(points);
         expect_line(trial, solution, points, kTypical, 1e-6, "descending: ");
         points.insert(points.begin() + 3, points.back());
         points.push_back(points.front());
         points.push_back({0, kTypical.at(0)});
         expect_line(trial, solution, points, kTypical, 1e-6, "two sizes twice, and 0 bytes: ");
       },
       ""},
      {"every-size-alike", "no size counts more than another",
       "4 MiB take two hundred times as long as 4 bytes, so a hundredth of the one outweighs "
       "all of the other, and alpha is lost in it. Compare by ratios: log(line / time), or "
       "(line - time) / time",
       [=](Trial& trial) {
         for (unsigned pattern = 0; pattern < 1U << 11U; pattern += 13) {
           std::vector<CostPoint> points = points_on(kTypical);
           for (std::size_t i = 0; i < points.size(); ++i) {
             points[i].seconds *= (pattern >> i & 1U) != 0 ? 1.1 : 0.9;
           }
           expect_line(trial, solution, points, kTypical, 0.25, "every time off by 10 %: ");
         }
       },
       ""},
      {"outlier", "one bad time does not spoil the line",
       "squares let the one point that is far off rule, and so does a line drawn through it. "
       "Try the line through every two points, and keep the one with the least sum of "
       "|log(line / time)|: like a median, it stays with the majority",
       [=](Trial& trial) {
         for (const double factor : {50.0, 1 / 50.0}) {
           std::vector<CostPoint> points = points_on(kTypical);
           for (std::size_t i = 0; i < points.size(); ++i) {
             const double right = points[i].seconds;
             points[i].seconds *= factor;
             expect_line(
                 trial, solution, points, kTypical, 0.05,
                 fmt::format("the time of {} bytes times {}: ", points[i].bytes, factor));
             points[i].seconds = right;
           }
         }
       },
       ""},
  };
}

}  // namespace dist::exercise
