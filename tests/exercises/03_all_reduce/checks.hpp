// The checks of lesson 3's exercises.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "tests/exercises/message_checks.hpp"

namespace dist::exercise {

using OnSpan = std::function<void(const Communicator&, std::span<float>)>;
// The arguments are bytes, ranks, alpha, beta, gamma.
using Choice = std::function<AllReduceAlgorithm(double, int, double, double, double)>;

std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution);
std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution);
std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution);
std::vector<Check> checks_of_choose_all_reduce(const Choice& solution);

}  // namespace dist::exercise
