// What this file adds: alpha and beta, the two numbers behind all later predictions. A message
// of n bytes takes about alpha + n beta: a latency, and a time per byte.
// Builds on: the times that perf/ping_pong.cpp measures.
// Look at: fit_link_cost, which neither the largest message nor one bad measurement dominates.
#pragma once

#include "common/communicator.hpp"
#include "common/device.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dist {

struct CostPoint {
  std::size_t bytes;
  double seconds;

  double bandwidth() const { return static_cast<double>(bytes) / seconds; }
};

// The cost of messages on this machine. By default, a guess for one host: 1 us and 10 GB/s.
struct LinkCost {
  double alpha_s = 1e-6;
  double beta_s_per_byte = 1e-10;
  double r2 = 0;  // how well the line fits the points; 1 is a perfect fit
  // The measured points, in ascending order of size. Formulas use the line, but the points are
  // more accurate, because MPI changes its protocol with the size.
  std::vector<CostPoint> message{};     // one way between two ranks; the others are idle
  std::vector<CostPoint> exchange{};    // one step of a ring: all ranks send at the same time
  int ranks = 0;                        // number of ranks measured; 0 if this is a guess
  DeviceType device = DeviceType::cpu;  // where the tensors were
  bool between_hosts = false;           // whether the ranks were on several hosts

  double line_seconds(std::size_t bytes) const;
  // Interpolated between the points. Outside the range of the points, the curve continues in
  // proportion to the line. Without points, the curve is the line.
  double message_seconds(std::size_t bytes) const;
  double exchange_seconds(std::size_t bytes) const;
};

// Of all lines with alpha and beta >= 0 through two of the points, returns the one with the
// least sum of |log((alpha + n beta) / t)|. The result's `message` holds the points. There must
// be at least three, with ascending sizes and times above zero.
LinkCost fit_link_cost(std::vector<CostPoint> points);

inline constexpr const char* kLinkCostFile = ".learn/alpha-beta.json";  // in this folder
// Called on one rank. Replaces the file in one step: a reader sees either the complete old file
// or the complete new one. Returns what was done: "saved in FILE", or "not saved: why".
std::string save_link_cost(const LinkCost& cost);
// Called on all ranks, which all get what rank 0's file says: with different measurements, they
// could choose different algorithms, and would not expect each other's messages. Returns
// nullopt if there is no file, or one from one host although the ranks are now on several, or
// the reverse. Throws Error naming the file if it is damaged.
std::optional<LinkCost> load_link_cost(const Communicator& comm);

}  // namespace dist
