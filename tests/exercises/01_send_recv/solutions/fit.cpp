// Right and wrong fits of alpha and beta.
#include "01_send_recv/measure.hpp"
#include "tests/exercises/01_send_recv/reference/fit_alpha_beta.hpp"
#include "tests/exercises/01_send_recv/solutions/solutions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace dist::exercise {
namespace {

using Points = std::span<const CostPoint>;

LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

double n_of(const CostPoint& point) {
  return static_cast<double>(point.bytes);
}

LinkCost through(const CostPoint& p, const CostPoint& q) {
  const double beta = (q.seconds - p.seconds) / (n_of(q) - n_of(p));
  return line(p.seconds - beta * n_of(p), beta);
}

// Right: the median of all slopes (Theil and Sen), then that of what is left.
LinkCost median_of_slopes(Points points) {
  std::vector<double> slopes;
  for (const CostPoint& p : points) {
    for (const CostPoint& q : points) {
      if (p.bytes < q.bytes) slopes.push_back(through(p, q).beta_s_per_byte);
    }
  }
  const double beta = median(slopes);
  std::vector<double> rest;
  for (const CostPoint& p : points) rest.push_back(p.seconds - beta * n_of(p));
  return line(median(rest), beta);
}

// The closed form of the least sum of weight * (line - seconds)^2.
LinkCost weighted_squares(Points points,
                          const std::function<double(const CostPoint&)>& weight) {
  double w = 0;
  double wn = 0;
  double wt = 0;
  double wnn = 0;
  double wnt = 0;
  for (const CostPoint& p : points) {
    const double each = weight(p);
    w += each;
    wn += each * n_of(p);
    wt += each * p.seconds;
    wnn += each * n_of(p) * n_of(p);
    wnt += each * n_of(p) * p.seconds;
  }
  const double beta = (w * wnt - wn * wt) / (w * wnn - wn * wn);
  return line((wt - beta * wn) / w, beta);
}

LinkCost least_squares(Points points) {
  return weighted_squares(points, [](const CostPoint&) { return 1.0; });
}

LinkCost squares_of_ratios(Points points) {
  return weighted_squares(points,
                          [](const CostPoint& p) { return 1 / (p.seconds * p.seconds); });
}

// Right: squares of ratios without one of the points, whichever is best left out.
LinkCost leaves_one_out(Points points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t left_out = 0; left_out < points.size(); ++left_out) {
    std::vector<CostPoint> rest(points.begin(), points.end());
    if (rest.size() > 3) rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
    const LinkCost cost = squares_of_ratios(rest);
    double sum = 0;
    for (const CostPoint& p : rest) {
      sum += std::abs(std::log(cost.line_seconds(p.bytes) / p.seconds));
    }
    if (!(sum < least)) continue;
    least = sum;
    best = cost;
  }
  return best;
}

LinkCost smallest_and_largest(Points points) {
  const auto by_bytes = [](const CostPoint& p, const CostPoint& q) {
    return p.bytes < q.bytes;
  };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_bytes);
  return through(*low, *high);
}

// Time by bytes of the largest is beta; and alpha?
LinkCost bandwidth_of_the_largest(Points points) {
  const auto largest = std::ranges::max_element(points, {}, &CostPoint::bytes);
  const auto least = std::ranges::min_element(points, {}, &CostPoint::seconds);
  return line(least->seconds, largest->seconds / n_of(*largest));
}

LinkCost microseconds(Points points) {
  const LinkCost right = fit_alpha_beta(points);
  return line(1e6 * right.alpha_s, 1e6 * right.beta_s_per_byte);
}

LinkCost bytes_per_second(Points points) {
  const LinkCost right = fit_alpha_beta(points);
  return line(right.alpha_s, 1 / right.beta_s_per_byte);
}

// The reference but for a difference of unsigned numbers, which is right if the sizes ascend.
LinkCost unsigned_difference(Points points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double beta = (points[j].seconds - points[i].seconds) /
                          static_cast<double>(points[j].bytes - points[i].bytes);
      const LinkCost cost = line(points[i].seconds - beta * n_of(points[i]), beta);
      double sum = 0;
      for (const CostPoint& p : points) {
        sum += std::abs(std::log(cost.line_seconds(p.bytes) / p.seconds));
      }
      if (!(sum < least)) continue;
      least = sum;
      best = cost;
    }
  }
  return best;
}

// The lesson's, which takes sizes that ascend.
LinkCost lessons_own(Points points) {
  return fit_link_cost({points.begin(), points.end()});
}

// The median of slopes between neighbours: one bad time spoils two of them, and the noise of
// small sizes is larger than their differences.
LinkCost slopes_of_neighbours(Points points) {
  std::vector<CostPoint> sorted(points.begin(), points.end());
  std::ranges::sort(sorted, {}, &CostPoint::bytes);
  std::vector<double> slopes;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].bytes == sorted[i - 1].bytes) continue;
    slopes.push_back(through(sorted[i - 1], sorted[i]).beta_s_per_byte);
  }
  const double beta = median(slopes);
  return line(sorted.front().seconds - beta * n_of(sorted.front()), beta);
}

}  // namespace

std::vector<Solution> fit_solutions() {
  const auto named = [](const char* name, const FitAlphaBeta& solution) {
    return Solution{"fit_alpha_beta", name, checks_of_fit_alpha_beta(solution)};
  };
  return {
      named("reference", fit_alpha_beta),
      named("median-of-slopes", median_of_slopes),
      named("leaves-one-out", leaves_one_out),
      named("least-squares", least_squares),
      named("squares-of-ratios", squares_of_ratios),
      named("smallest-and-largest", smallest_and_largest),
      named("bandwidth-of-largest", bandwidth_of_the_largest),
      named("microseconds", microseconds),
      named("bytes-per-second", bytes_per_second),
      named("unsigned-difference", unsigned_difference),
      named("lessons-own", lessons_own),
      named("slopes-of-neighbours", slopes_of_neighbours),
  };
}

}  // namespace dist::exercise
