// The checks of lesson 4's exercises.
#pragma once

#include "04_distributed_sampler/exercise/policy.hpp"
#include "tests/exercises/message_checks.hpp"

namespace dist::exercise {

using Indices = std::vector<std::size_t>;
using Order = std::span<const std::size_t>;
using MyIndices = std::function<Indices(Order, int, int, Policy)>;
using IndicesAfter = std::function<Indices(Order, std::size_t, int, int, Policy)>;
using WeightedMean = std::function<double(const Communicator&, double, std::uint64_t)>;

std::vector<Check> checks_of_my_indices(const MyIndices& solution);
std::vector<Check> checks_of_indices_after(const IndicesAfter& solution);
std::vector<Check> checks_of_weighted_mean(const WeightedMean& solution);

}  // namespace dist::exercise
