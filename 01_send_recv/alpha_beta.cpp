// Look at: fit_link_cost.
#include "01_send_recv/alpha_beta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dist {

// Returns the sum of |log(line / t)|: twice the measured time counts as much as half of it.
static double distance(const std::vector<CostPoint>& points, const LinkCost& line) {
  double sum = 0;
  for (const CostPoint& p : points) {
    sum += std::abs(std::log(line.line_seconds(p.bytes) / p.seconds));
  }
  return sum;
}

// Returns the share of the variance of log(time) that the line explains. Without logarithms,
// the largest size alone would decide, since the sizes span six orders of magnitude.
static double explained_share(const std::vector<CostPoint>& points, const LinkCost& line) {
  double mean = 0;
  for (const CostPoint& p : points)
    mean += std::log(p.seconds) / static_cast<double>(points.size());
  double spread = 0, rest = 0;
  for (const CostPoint& p : points) {
    spread += std::pow(std::log(p.seconds) - mean, 2);
    rest += std::pow(std::log(p.seconds) - std::log(line.line_seconds(p.bytes)), 2);
  }
  return spread > 0 ? 1 - rest / spread : 1;
}

static double on_curve(const std::vector<CostPoint>& points, const LinkCost& cost,
                       std::size_t bytes) {
  if (points.empty()) return cost.line_seconds(bytes);
  const auto upper = std::ranges::lower_bound(points, bytes, {}, &CostPoint::bytes);
  if (upper == points.begin() || upper == points.end()) {
    const CostPoint& end = upper == points.begin() ? points.front() : points.back();
    return end.seconds * cost.line_seconds(bytes) / cost.line_seconds(end.bytes);
  }
  const CostPoint& low = *(upper - 1);
  const double share =
      static_cast<double>(bytes - low.bytes) / static_cast<double>(upper->bytes - low.bytes);
  return low.seconds + share * (upper->seconds - low.seconds);
}

double LinkCost::line_seconds(std::size_t bytes) const {
  return alpha_s + beta_s_per_byte * static_cast<double>(bytes);
}

double LinkCost::message_seconds(std::size_t bytes) const {
  return on_curve(message, *this, bytes);
}

double LinkCost::exchange_seconds(std::size_t bytes) const {
  return on_curve(exchange, *this, bytes);
}

// [8] Why not least squares? A message of 4 MiB takes about a thousand times as long as one of
// 4 bytes, so an error of 0.1 % in the former weighs as much as one of 100 % in the latter. The
// fit would find beta well, but alpha would be noise. Ratios give every size the same weight.
// Why not square the logarithms of these ratios? One interrupted measurement would pull the
// whole line towards it. With absolute values, the line stays with the majority, as a median
// does (Bloomfield and Steiger, "Least Absolute Deviations", 1983).
//
// A line of least absolute deviations passes through two of the points, just as a median is one
// of the values. If alpha or beta would be negative, we set it to zero, and the line passes
// through only one point. With a dozen points we can try all such lines.
LinkCost fit_link_cost(std::vector<CostPoint> points) {
  LinkCost best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](double alpha, double beta) {
    const LinkCost line{.alpha_s = alpha, .beta_s_per_byte = beta};
    if (alpha < 0 || beta < 0 || line.line_seconds(points.front().bytes) <= 0) return;
    const double sum = distance(points, line);
    if (sum >= least) return;
    least = sum;
    best = line;
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    consider(points[i].seconds, 0);
    if (points[i].bytes > 0)
      consider(0, points[i].seconds / static_cast<double>(points[i].bytes));
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double beta = (points[j].seconds - points[i].seconds) /
                          static_cast<double>(points[j].bytes - points[i].bytes);
      consider(points[i].seconds - beta * static_cast<double>(points[i].bytes), beta);
    }
  }
  best.r2 = explained_share(points, best);
  best.message = std::move(points);
  return best;
}

}  // namespace dist
