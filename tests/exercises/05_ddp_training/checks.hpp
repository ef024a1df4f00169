// What lesson 5's exercises must do.
#pragma once

#include "tests/exercises/exercise.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace dist::exercise {

using Gradients = std::vector<std::span<float>>;
using SyncGradients = std::function<void(const Communicator&, const Gradients&)>;

// sync_checks.cpp
std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution);

}  // namespace dist::exercise
