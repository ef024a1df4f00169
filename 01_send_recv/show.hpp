// What lessons 1 to 3 show: four numbers per rank, before and after the lesson's own call.
#pragma once

#include "common/program.hpp"
#include "common/tensor.hpp"

#include <functional>
#include <string>

namespace dist {

// Returns four numbers on the program's device. Rank r has 1000 r, 1000 r + 1, 1000 r + 2 and
// 1000 r + 3, so every number shows where it came from.
Tensor four_numbers(const Program& program);

// Called on all ranks after one of the lesson's calls has changed `tensor`, which was
// four_numbers(program). Prints "act: title" and all ranks' numbers, before and after; with
// --json, a row per rank. Returns, on all ranks, whether number i is expected(i) on every rank,
// to within the relative error `tolerance`.
bool show(const Program& program, const std::string& act, const std::string& title,
          const Tensor& tensor, const std::function<double(int)>& expected,
          double tolerance = 0);

}  // namespace dist
