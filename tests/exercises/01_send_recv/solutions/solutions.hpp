// The known solutions of lesson 1, right and wrong.
#pragma once

#include "tests/exercises/01_send_recv/checks.hpp"

#include <vector>

namespace dist::exercise {

std::vector<Solution> exchange_solutions();
std::vector<Solution> ring_shift_solutions();
std::vector<Solution> ping_pong_solutions();
std::vector<Solution> fit_solutions();

}  // namespace dist::exercise
