// Belief:  gradients that are added up train like gradients that are averaged: the sum points
//          the same way.
// Predict: learning rate 0.6, ten steps to the middle of all ranks' targets, which is 0.4^10 of
//          the way off with the average. How far off with the sum?
// You see: a first step N times as long, and then exactly what the average does at N times the
//          learning rate: faster on 2 ranks (0.2 of the distance is left by each step), and
//          away from the middle on 4 (1.4 times the distance).
// Why:     sum = N * average, so the effective learning rate is N * lr. A rate tuned on one
//          rank is another one on every other number of ranks.
// In the wild: pytorch/pytorch#37359, #67253.
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/break_it/experiments.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>

namespace dist {
namespace {

constexpr double kRate = 0.6;
constexpr int kSteps = 10;

struct Descent {
  double first_step = 0;
  double left = 0;  // of the distance, after all steps
};

// Every rank pulls the one parameter to a target of its own, its rank: the loss is half the
// squared distance, the gradient the distance. The mean loss is least in the middle.
Descent descend(const Communicator& comm, ReduceOp op, double rate) {
  const double middle = (comm.size() - 1) / 2.0;
  double parameter = middle + 1;
  Descent result;
  for (int step = 0; step < kSteps; ++step) {
    std::array gradient{parameter - comm.rank()};
    all_reduce_ring<double>(comm, gradient, op);
    parameter -= rate * gradient[0];
    if (step == 0) result.first_step = middle + 1 - parameter;
  }
  result.left = std::abs(parameter - middle);
  return result;
}

}  // namespace

bool break_forget_divide(const Program& program) {
  const int size = program.comm.size();
  const Descent average = descend(program.comm, ReduceOp::avg, kRate);
  const Descent sum = descend(program.comm, ReduceOp::sum, kRate);
  const Descent faster = descend(program.comm, ReduceOp::avg, size * kRate);
  const double ratio = sum.first_step / average.first_step;

  Table table({"gradient", "learning rate", "first step", "left of the distance after 10"});
  const auto add = [&](const char* gradient, double rate, const Descent& descent) {
    table.add({gradient, fmt::format("{:.1f}", rate), fmt::format("{:.2f}", descent.first_step),
               fmt::format("{:.3g}", descent.left)});
  };
  add("average", kRate, average);
  add("sum", kRate, sum);
  add("average", size * kRate, faster);
  table.print(program.console);
  program.console.line(
      fmt::format("the sum's step is {:.6g} times as long, on {} ranks: it is {}", ratio, size,
                  "the average at that many times the rate"));
  program.console.row({{"break", "forget-divide"},
                       {"ranks", size},
                       {"step_ratio", significant(ratio)},
                       {"left_average", significant(average.left)},
                       {"left_sum", significant(sum.left)},
                       {"left_average_at_n_times_the_rate", significant(faster.left)}});
  // Both round, differently: the average divides.
  const double rounding = 1e-9 * std::max(1.0, faster.left);
  return std::abs(ratio - size) < 1e-9 && std::abs(sum.left - faster.left) < rounding &&
         sum.left != average.left;
}

}  // namespace dist
