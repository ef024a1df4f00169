// What this file adds: the two numbers that decide everything later. A message of n bytes takes
// about alpha + n beta: a latency, and a time per byte.
// Builds on: the times that ping_pong measures.
// Look at: fit_link_cost, and why neither the largest message nor one bad measurement rules.
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

// What messages cost on this machine. As it comes, without any measurement, it is a guess for
// one host: a microsecond, and ten gigabytes per second.
struct LinkCost {
  double alpha_s = 1e-6;
  double beta_s_per_byte = 1e-10;
  double r2 = 0;  // how well the line describes the points; 1 is exactly
  // Measured, by ascending size. The line is for formulas; MPI changes its protocol with the
  // size, so the points know more than the line.
  std::vector<CostPoint> message;       // one way between one pair, all others idle
  std::vector<CostPoint> exchange;      // all ranks to the right at once: one step of a ring
  int ranks = 0;                        // that measured; 0: a guess
  DeviceType device = DeviceType::cpu;  // where the tensors lay

  double line_seconds(std::size_t bytes) const;
  // Interpolated between the points. Beyond their ends the curve goes on from its last point as
  // the line does; without points it is the line.
  double message_seconds(std::size_t bytes) const;
  double exchange_seconds(std::size_t bytes) const;
};

// The line with alpha, beta >= 0 whose ratio to the points' times is nearest to 1: of all lines
// through two of the points, the one with the least sum of |log((alpha + n beta) / t)|.
// `message` of the result are the points. Throws Error for fewer than three sizes, for sizes
// that do not ascend, or a time that is not above zero.
LinkCost fit_link_cost(std::vector<CostPoint> points);

// alpha-beta.json in the current folder's .learn/. Called on one rank.
inline constexpr const char* kLinkCostFile = ".learn/alpha-beta.json";
// Replaces the file in one step: a reader sees the old one or the new one, whole. Throws Error
// naming the file if it cannot be written.
void save_link_cost(const LinkCost& cost);
// Nothing if there is no such file; throws Error naming it if it holds something else.
std::optional<LinkCost> load_link_cost();

}  // namespace dist
