// Belief:  replicas that start with unequal weights drift apart at once, and the loss shows it.
// Predict: every rank draws its own weight (seed + rank), and nobody broadcasts. After 100
//          steps of SGD with averaged gradients, is the spread between the replicas larger,
//          smaller, or zero? Does the loss fall?
// You see: the spread is unchanged, up to rounding. Every rank's loss falls nevertheless, but
//          not as far as with the broadcast. Without a second run to compare it with, a falling
//          loss proves nothing.
// Why:     all replicas get the same averaged gradient, bit for bit, so all apply the same
//          update. Equal updates leave the differences between replicas as they are. The
//          gradients steer the mean of the replicas to the solution, while each replica keeps
//          its initial distance from that mean.
#include "02_broadcast/binomial_tree.hpp"
#include "common/program.hpp"
#include "common/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace dist {
namespace {

constexpr float kTrueWeight = 2;
constexpr float kLearningRate = 0.1F;
constexpr int kSteps = 100;

// All ranks' numbers, on all ranks, by lesson 2's tool: each rank broadcasts its own.
std::vector<float> all_numbers(const Communicator& comm, float mine) {
  std::vector<float> numbers(static_cast<std::size_t>(comm.size()), mine);
  int root = 0;
  for (float& number : numbers) broadcast_tree<float>(comm, {&number, 1}, root++);
  return numbers;
}

float spread(const std::vector<float>& numbers) {
  const auto [lowest, highest] = std::ranges::minmax(numbers);
  return highest - lowest;
}

struct Run {
  std::vector<float> loss;      // this rank's, before each step and after the last
  std::vector<float> spread;    // of all ranks' weights, at the same times
  float update_difference = 0;  // the largest difference between two ranks' updates in any step
};

Run train(const Program& program, bool broadcast_first, Table& table) {
  const Communicator& comm = program.comm;
  Generator generator(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  std::array<float, 1> weight;
  fill_uniform(weight, -1, 1, generator);
  std::array<float, 32> samples;  // different on each rank; a target is true weight x sample
  fill_normal(samples, generator);
  if (broadcast_first) broadcast_tree<float>(comm, weight, /*root=*/0);

  Run run;
  for (int step = 0; step <= kSteps; ++step) {
    float loss = 0;  // the mean squared error
    float gradient = 0;
    for (const float sample : samples) {
      const float error = (weight[0] - kTrueWeight) * sample;
      loss += error * error / samples.size();
      gradient += 2 * error * sample / samples.size();
    }
    run.loss.push_back(loss);
    run.spread.push_back(spread(all_numbers(comm, weight[0])));
    const auto losses = std::ranges::minmax(all_numbers(comm, loss));
    if (step == 0 || step == 10 || step == kSteps) {
      table.add({broadcast_first ? "yes" : "no", std::to_string(step),
                 fmt::format("{:.2g}", losses.min), fmt::format("{:.2g}", losses.max),
                 fmt::format("{:.7f}", run.spread.back())});
    }
    if (step == kSteps) break;
    // All ranks add in the same order, so the average is the same on all, bit for bit.
    const std::vector<float> gradients = all_numbers(comm, gradient);
    const float sum = std::accumulate(gradients.begin(), gradients.end(), 0.0F);
    const float update = -kLearningRate * sum / static_cast<float>(comm.size());
    const float difference = spread(all_numbers(comm, update));
    run.update_difference = std::max(run.update_difference, difference);
    weight[0] += update;
  }
  return run;
}

}  // namespace

bool break_no_broadcast(const Program& program) {
  Table table({"broadcast first", "step", "lowest loss", "highest", "spread of the replicas"});
  const Run without = train(program, false, table);
  const Run with_it = train(program, true, table);
  table.print(program.console);
  program.console.line(
      "  the ranks' updates differed by at most {} in the {} steps without the broadcast",
      without.update_difference, kSteps);
  // In each step, rounding may change a weight of about 2 by up to 2^-23.
  const float rounding = 2e-7F * kSteps;
  const float at_first = without.spread.front();
  return at_first > 100 * rounding && std::abs(without.spread.back() - at_first) < rounding &&
         without.update_difference == 0 && without.loss.back() < without.loss.front() &&
         with_it.spread.back() == 0 && with_it.loss.back() < 1e-6F;
}

}  // namespace dist
