// The checks of lesson 1's exercises.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "tests/exercises/message_checks.hpp"

#include <unistd.h>

namespace dist::exercise {

using Exchange =
    std::function<void(const Communicator&, int, std::span<const float>, std::span<float>)>;
using RingShift =
    std::function<void(const Communicator&, std::span<const float>, std::span<float>)>;
using PingPong = std::function<double(const Communicator&, std::size_t, int)>;
using FitAlphaBeta = std::function<LinkCost(std::span<const CostPoint>)>;

inline LinkCost line(double alpha, double beta) {
  LinkCost cost;
  cost.alpha_s = alpha;
  cost.beta_s_per_byte = beta;
  return cost;
}

std::vector<Check> checks_of_exchange(const Exchange& solution);
std::vector<Check> checks_of_ring_shift(const RingShift& solution);
std::vector<Check> checks_of_ping_pong(const PingPong& solution);
std::vector<Check> checks_of_fit_alpha_beta(const FitAlphaBeta& solution);

}  // namespace dist::exercise
