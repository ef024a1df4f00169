// Known solutions of the exercise fit_alpha_beta: the reference, and others, right and wrong.
// More are in fit_alpha_beta_changes.toml.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/measure.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace dist::exercise {

// == reference | done
// Of all lines through two of the points, the one with the smallest sum of
// |log(line / time)| over all points. A line that minimizes a sum of absolute values passes
// through two of the points, just as a median is one of the values.
inline LinkCost fit_alpha_beta_reference(std::span<const CostPoint> points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  for (const CostPoint& p : points) {
    for (const CostPoint& q : points) {
      if (p.bytes >= q.bytes) continue;  // takes each pair once, and skips pairs of equal size
      LinkCost line;
      line.beta_s_per_byte = (q.seconds - p.seconds) / static_cast<double>(q.bytes - p.bytes);
      line.alpha_s = p.seconds - line.beta_s_per_byte * static_cast<double>(p.bytes);
      double sum = 0;
      for (const CostPoint& point : points) {
        // The logarithm of a negative number is NaN, and `sum < least` is then false.
        sum += std::abs(std::log(line.line_seconds(point.bytes) / point.seconds));
      }
      if (!(sum < least)) continue;
      least = sum;
      best = line;
    }
  }
  return best;
}

// == helpers
inline LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

inline double n_of(const CostPoint& point) {
  return static_cast<double>(point.bytes);
}

// The closed form of the line with the least sum of (line - seconds)^2 / seconds^power.
inline LinkCost weighted_squares(std::span<const CostPoint> points, double power) {
  double w = 0, wn = 0, wt = 0, wnn = 0, wnt = 0;
  for (const CostPoint& p : points) {
    const double each = std::pow(p.seconds, -power);
    w += each;
    wn += each * n_of(p);
    wt += each * p.seconds;
    wnn += each * n_of(p) * n_of(p);
    wnt += each * n_of(p) * p.seconds;
  }
  const double beta = (w * wnt - wn * wt) / (w * wnn - wn * wn);
  return {.alpha_s = (wt - beta * wn) / w, .beta_s_per_byte = beta};
}

// == median-of-slopes | every-size-alike | sizes may lie close together
// The median of all slopes (Theil and Sen), and the median of seconds - beta * bytes: where
// most points are large and close together, it is made of their errors.
inline LinkCost fit_alpha_beta_median_of_slopes(std::span<const CostPoint> points) {
  std::vector<double> slopes, rest;
  for (const CostPoint& p : points)
    for (const CostPoint& q : points)
      if (p.bytes < q.bytes) slopes.push_back((q.seconds - p.seconds) / (n_of(q) - n_of(p)));
  const double beta = median(slopes);
  for (const CostPoint& p : points) rest.push_back(p.seconds - beta * n_of(p));
  return line(median(rest), beta);
}

// == least-squares | every-size-alike | Compare ratios
// Least squares of seconds: the largest size dominates.
inline LinkCost fit_alpha_beta_least_squares(std::span<const CostPoint> points) {
  return weighted_squares(points, 0);
}

// == squares-of-ratios | outlier | is lopsided
// Least squares of ratios: one time that is far too short dominates.
inline LinkCost fit_alpha_beta_squares_of_ratios(std::span<const CostPoint> points) {
  return weighted_squares(points, 2);
}

}  // namespace dist::exercise
