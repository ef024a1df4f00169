// How two numbers become one on the way: sum, average, maximum.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

#include "01_send_recv/send_recv.hpp"

namespace dist {

enum class ReduceOp { sum, avg, max };

// into[i] = into[i] (op) from[i]. An average is added up like a sum; finish() divides.
//
// Both operations give the same bits whichever operand comes first. All ranks depend on that:
// in recursive doubling one partner computes a + b and the other b + a. For max this needs care:
// std::max(a, NaN) and std::max(NaN, a) differ, so here a NaN always wins, and is seen.
template <MpiScalar T>
void accumulate(ReduceOp op, std::span<T> into, std::span<const T> from) {
  if (op == ReduceOp::max) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      if (from[i] > into[i] || from[i] != from[i]) into[i] = from[i];
    }
  } else {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = static_cast<T>(into[i] + from[i]);
  }
}

// Turns the sum over `size` ranks into what `op` asks for. Called once per element, on the ranks
// that finished its sum. Throws Error for the average of whole numbers.
template <MpiScalar T>
void finish(ReduceOp op, std::span<T> data, int size) {
  if (op != ReduceOp::avg) return;
  if constexpr (std::floating_point<T>) {
    // Multiplied, not divided, as PyTorch's DDP does: for 3 ranks the last bit differs.
    const T factor = static_cast<T>(1.0 / size);
    for (T& value : data) value *= factor;
  } else {
    throw Error("the average of whole numbers is not a whole number: use sum");
  }
}

}  // namespace dist
