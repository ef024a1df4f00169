// How two numbers become one on the way: sum, average, maximum.
#pragma once

#include "01_send_recv/send_recv.hpp"

#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

namespace dist {

enum class ReduceOp { sum, avg, max };

// into[i] = into[i] (op) from[i]. An average is added up like a sum; finish() divides.
//
// Both operations give the same bits whichever operand comes first. All ranks depend on that:
// in recursive doubling one partner computes a + b and the other b + a. For max this needs
// care: std::max(a, NaN) and std::max(NaN, a) differ, so here a NaN always wins, and is seen.
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

// Throws Error for the average of whole numbers, which is none.
template <MpiScalar T>
void check_op(ReduceOp op) {
  if (op == ReduceOp::avg && !std::floating_point<T>) {
    throw Error("the average of whole numbers is not a whole number: use sum");
  }
}

// Turns the sum over `size` ranks into what `op` asks for. Called once per element, on the rank
// or ranks that finished its sum.
template <MpiScalar T>
void finish(ReduceOp op, std::span<T> data, int size) {
  check_op<T>(op);
  if (op != ReduceOp::avg) return;
  // Multiplied by 1/size, as PyTorch's DDP does by default (before its all-reduce); dividing
  // differs in the last bit for 3 ranks.
  const double factor = 1.0 / size;
  for (T& value : data) value = static_cast<T>(value * static_cast<T>(factor));
}

}  // namespace dist
