// What this file adds: alpha and beta, the two numbers behind all later predictions. A message
// of n bytes takes about alpha + n beta: a latency, and a time per byte.
// Builds on: the times that ping_pong measures.
// Look at: fit_link_cost, which neither the largest message nor one bad measurement dominates.
#pragma once

#include "common/device.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dist {

struct CostPoint {
  std::size_t bytes;
  double seconds;
};

// What messages cost on this machine. The default values are a guess for one host: one
// microsecond, and ten gigabytes per second.
struct LinkCost {
  double alpha_s = 1e-6;
  double beta_s_per_byte = 1e-10;
  double r2 = 0;  // how well the line fits the points; 1 is a perfect fit
  // Measured, by ascending size. Formulas use the line. The points are more accurate, because
  // MPI changes its protocol with the size.
  std::vector<CostPoint> message;       // one way between one pair, all others idle
  std::vector<CostPoint> exchange;      // all ranks send right at once: one step of a ring
  int ranks = 0;                        // that were measured; 0 if this is a guess
  DeviceType device = DeviceType::cpu;  // where the tensors were

  double line_seconds(std::size_t bytes) const;
  // Interpolated between the points. Beyond the first and the last point, the curve continues
  // in proportion to the line. Without points it is the line.
  double message_seconds(std::size_t bytes) const;
  double exchange_seconds(std::size_t bytes) const;
};

// Returns, of all lines through two of the points with alpha and beta >= 0, the one with the
// least sum of |log((alpha + n beta) / t)|. The result's `message` holds the points. Throws
// Error for fewer than three sizes, for sizes that do not ascend, and for a time that is not
// above zero.
LinkCost fit_link_cost(std::vector<CostPoint> points);

// In the current folder. The two functions below are called on one rank.
inline constexpr const char* kLinkCostFile = ".learn/alpha-beta.json";
// Replaces the file in one step: a reader sees the complete old file or the complete new one.
// Throws Error naming the file if it cannot be written.
void save_link_cost(const LinkCost& cost);
// Returns nothing if the file does not exist. Throws Error naming the file if it is damaged.
std::optional<LinkCost> load_link_cost();

}  // namespace dist
