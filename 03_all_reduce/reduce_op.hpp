// What an all-reduce computes (sum, average or maximum), and the names of its algorithms.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "common/names.hpp"

#include <concepts>
#include <cstddef>
#include <span>
#include <string>

namespace dist {

enum class ReduceOp { sum, avg, max };

// The names that --op accepts.
inline const Names<ReduceOp> kReduceOps{
    {"sum", ReduceOp::sum}, {"avg", ReduceOp::avg}, {"max", ReduceOp::max}};

// all_reduce.hpp runs any of them.
enum class AllReduceAlgorithm {
  naive,
  recursive_doubling,
  ring,
  mpi,
  automatic,
  // for a second reading
  ring_pipelined,
  rabenseifner,
  shared_memory,
  hierarchical,
};

// The names that --algorithm accepts.
inline const Names<AllReduceAlgorithm> kAllReduceAlgorithms{
    {"naive", AllReduceAlgorithm::naive},
    {"recursive-doubling", AllReduceAlgorithm::recursive_doubling},
    {"rabenseifner", AllReduceAlgorithm::rabenseifner},
    {"ring", AllReduceAlgorithm::ring},
    {"ring-pipelined", AllReduceAlgorithm::ring_pipelined},
    {"shared-memory", AllReduceAlgorithm::shared_memory},
    {"hierarchical", AllReduceAlgorithm::hierarchical},
    {"mpi", AllReduceAlgorithm::mpi},
    {"auto", AllReduceAlgorithm::automatic}};

inline const std::string& to_string(AllReduceAlgorithm algorithm) {
  return kAllReduceAlgorithms.of(algorithm);
}

// [4] into[i] = into[i] (op) from[i]. An average is added up like a sum; finish() then
// multiplies it by 1/size.
//
// Sum and maximum give the same bits whichever operand comes first. Recursive doubling depends
// on this property, because one partner computes a + b and the other computes b + a.
// std::max(a, NaN) and std::max(NaN, a) differ, so this keeps a NaN from either operand.
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

// Throws Error for averages of integers, because such an average need not be an integer.
template <MpiScalar T>
void check_op(ReduceOp op) {
  if (op == ReduceOp::avg && !std::floating_point<T>) {
    throw Error("the average of whole numbers may be a fraction: use sum");
  }
}

// Turns the sum over `size` ranks into the result of `op`. Called once per element on each rank
// that has completed that element's sum.
template <MpiScalar T>
void finish(ReduceOp op, std::span<T> data, int size) {
  check_op<T>(op);
  if (op != ReduceOp::avg) return;
  // Multiply by 1/size, as PyTorch's DDP does by default (before its all-reduce). With 3 ranks,
  // a division by size may give a different last bit.
  const double factor = 1.0 / size;
  for (T& value : data) value = static_cast<T>(value * static_cast<T>(factor));
}

}  // namespace dist
