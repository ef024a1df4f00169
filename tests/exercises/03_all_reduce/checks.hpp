// What lesson 3's exercises must do.
#pragma once

#include "tests/exercises/exercise.hpp"

#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

using OnSpan = std::function<void(const Communicator&, std::span<float>)>;

// ring_checks.cpp
std::vector<Check> checks_of_ring_reduce_scatter(const OnSpan& solution);
std::vector<Check> checks_of_ring_all_gather(const OnSpan& solution);
std::vector<Check> checks_of_ring_all_reduce(const OnSpan& solution);

}  // namespace dist::exercise
