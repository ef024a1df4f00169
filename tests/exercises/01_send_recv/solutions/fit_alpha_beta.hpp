// Right and wrong fits of alpha and beta, by methods other than the reference's.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace dist::exercise {

inline LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

inline double n_of(const CostPoint& point) {
  return static_cast<double>(point.bytes);
}

inline LinkCost through(const CostPoint& p, const CostPoint& q) {
  const double beta = (q.seconds - p.seconds) / (n_of(q) - n_of(p));
  return line(p.seconds - beta * n_of(p), beta);
}

// Right: beta is the median of all slopes (Theil and Sen), and alpha is the median of seconds -
// beta * bytes.
inline LinkCost median_of_slopes(std::span<const CostPoint> points) {
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

// The closed form of the line with the least sum of weight * (line - seconds)^2.
inline LinkCost weighted_squares(std::span<const CostPoint> points,
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

inline LinkCost least_squares(std::span<const CostPoint> points) {
  return weighted_squares(points, [](const CostPoint&) { return 1.0; });
}

inline LinkCost squares_of_ratios(std::span<const CostPoint> points) {
  return weighted_squares(points,
                          [](const CostPoint& p) { return 1 / (p.seconds * p.seconds); });
}

// Right: least squares of the relative errors, without the one point whose omission helps most.
inline LinkCost leaves_one_out(std::span<const CostPoint> points) {
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

inline LinkCost smallest_and_largest(std::span<const CostPoint> points) {
  const auto by_bytes = [](const CostPoint& p, const CostPoint& q) {
    return p.bytes < q.bytes;
  };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_bytes);
  return through(*low, *high);
}

// Takes the largest message's time per byte as beta; only alpha comes from another point.
inline LinkCost bandwidth_of_largest(std::span<const CostPoint> points) {
  const auto largest = std::ranges::max_element(points, {}, &CostPoint::bytes);
  const auto least = std::ranges::min_element(points, {}, &CostPoint::seconds);
  return line(least->seconds, largest->seconds / n_of(*largest));
}

// The lesson's own function, which requires ascending sizes.
inline LinkCost lessons_own(std::span<const CostPoint> points) {
  return fit_link_cost({points.begin(), points.end()});
}

// The median of the slopes between neighbours. One bad time spoils two slopes, and for small
// sizes the noise exceeds the differences.
inline LinkCost slopes_of_neighbours(std::span<const CostPoint> points) {
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

}  // namespace dist::exercise
