// The checks of lesson 1's exercises.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "tests/exercises/exercise.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <unistd.h>
#include <vector>

namespace dist::exercise {

using Exchange =
    std::function<void(const Communicator&, int, std::span<const float>, std::span<float>)>;
using RingShift =
    std::function<void(const Communicator&, std::span<const float>, std::span<float>)>;
using PingPong = std::function<double(const Communicator&, std::size_t, int)>;
using FitAlphaBeta = std::function<LinkCost(std::span<const CostPoint>)>;

std::vector<Check> checks_of_exchange(const Exchange& solution);     // shift_checks.cpp
std::vector<Check> checks_of_ring_shift(const RingShift& solution);  // shift_checks.cpp
std::vector<Check> checks_of_ping_pong(const PingPong& solution);    // ping_pong_checks.cpp
std::vector<Check> checks_of_fit_alpha_beta(const FitAlphaBeta& solution);  // fit_checks.cpp

}  // namespace dist::exercise
