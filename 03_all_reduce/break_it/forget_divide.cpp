// Belief:  summed gradients train like averaged ones: both point in the same direction.
// Predict: the learning rate is 0.6, and the optimum is the middle of all ranks' targets. With
//          the average, ten steps leave 0.4^10 of the distance. What do they leave with the
//          sum?
// You see: the first step is N times as long, and training proceeds exactly as with the average
//          and N times the learning rate. On 2 ranks it converges faster (each step leaves 0.2
//          of the distance). On 4 ranks it diverges (each step makes the distance 1.4 times as
//          long).
// Why:     sum = N * average, so the effective learning rate is N * lr. A rate tuned for one
//          number of ranks is wrong for every other.
#include "03_all_reduce/all_reduce.hpp"
#include "common/program.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace dist {
namespace {

constexpr double kRate = 0.6;
constexpr int kSteps = 10;

struct Descent {
  double first_step = 0;
  double left = 0;  // the fraction of the distance left after all steps
};

// Every rank pulls the only parameter towards its own target, the rank's number. The loss is
// half the squared distance, so the gradient is the distance; the middle has the least loss.
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

  Table table({"gradient", "learning rate", "first step", "distance left after 10 steps"});
  const auto add = [&](const char* gradient, double rate, const Descent& descent) {
    table.add({gradient, fmt::format("{:.1f}", rate), fmt::format("{:.2f}", descent.first_step),
               fmt::format("{:.3g}", descent.left)});
  };
  add("average", kRate, average);
  add("sum", kRate, sum);
  add("average", size * kRate, faster);
  table.print(program.console);
  program.console.line("on {} ranks the sum's step is {:.6g} times as long as the average's",
                       size, ratio);
  // Sum and average are rounded differently, because only the average multiplies by 1/N.
  const double rounding = 1e-9 * std::max(1.0, faster.left);
  return std::abs(ratio - size) < 1e-9 && std::abs(sum.left - faster.left) < rounding &&
         sum.left != average.left;
}

}  // namespace dist
