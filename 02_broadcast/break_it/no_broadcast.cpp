// Belief:  replicas that start with unequal weights drift apart at once, and the loss shows it.
// Predict: every rank draws its own weights (seed + rank), and nobody broadcasts. After 100
//          steps of SGD with averaged gradients, is the spread between the replicas larger,
//          smaller, or zero? Does the loss fall?
// You see: the spread is unchanged, up to rounding. Every rank's loss falls nevertheless, but
//          not as far as with the broadcast. Without a second run to compare it with, a falling
//          loss proves nothing.
// Why:     all replicas get the same averaged gradient, bit for bit, so all apply the same
//          update. The program prints the largest difference between updates, which is exactly
//          0. Equal updates leave the differences between replicas as they are. The gradients
//          steer the mean of the replicas to the solution, while each replica keeps its initial
//          distance from that mean.
// In the wild: pytorch/torchtitan#166: N unequal models with equal gradients, and a loss that
//          falls but stays too high
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/break_it/experiments.hpp"
#include "02_broadcast/random.hpp"

#include <mpi.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kInputs = 8;
constexpr std::size_t kSamples = 32;  // per rank
constexpr std::size_t kParameters = kInputs + 1;
constexpr float kLearningRate = 0.1F;
constexpr int kSteps = 100;

using Model = std::vector<float>;  // weight (8), bias

// This rank's shard of the data. The targets come from one true model, the same for all ranks.
struct Shard {
  std::vector<float> inputs;  // (samples, inputs)
  std::vector<float> targets;
};

float predict(std::span<const float> model, std::span<const float> input) {
  float sum = model[kInputs];
  for (std::size_t i = 0; i < kInputs; ++i) sum += model[i] * input[i];
  return sum;
}

std::span<const float> sample(const Shard& shard, std::size_t s) {
  return std::span(shard.inputs).subspan(s * kInputs, kInputs);
}

Shard make_shard(std::uint64_t seed, int rank) {
  Model truth(kParameters);
  Generator of_all(seed + 1000);
  fill_uniform(truth, -1, 1, of_all);
  Generator of_rank(seed + 2000 + static_cast<std::uint64_t>(rank));
  Shard shard{std::vector<float>(kSamples * kInputs), std::vector<float>(kSamples)};
  fill_normal(shard.inputs, of_rank);
  for (std::size_t s = 0; s < kSamples; ++s) {
    shard.targets[s] = predict(truth, sample(shard, s));
  }
  return shard;
}

// Returns the mean squared error over the shard, and writes its gradient to `gradient`.
float loss_and_gradient(const Model& model, const Shard& shard, std::span<float> gradient) {
  std::ranges::fill(gradient, 0.0F);
  float loss = 0;
  for (std::size_t s = 0; s < kSamples; ++s) {
    const std::span<const float> input = sample(shard, s);
    const float error = predict(model, input) - shard.targets[s];
    loss += error * error / kSamples;
    for (std::size_t i = 0; i < kInputs; ++i) gradient[i] += 2 * error * input[i] / kSamples;
    gradient[kInputs] += 2 * error / kSamples;
  }
  return loss;
}

// Replaces `data` with its mean over ranks, computed with the tools of lessons 1 and 2: rank 0
// collects, divides and broadcasts.
void average(const Communicator& comm, std::span<float> data) {
  std::vector<float> other(data.size());
  if (comm.rank() == 0) {
    for (int rank = 1; rank < comm.size(); ++rank) {
      recv<float>(comm, other, rank);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] += other[i];
    }
    for (float& value : data) value /= static_cast<float>(comm.size());
  } else {
    send<float>(comm, data, 0);
  }
  broadcast_tree<float>(comm, data, 0);
}

// Returns the largest distance from rank 0's values over all ranks and elements. All ranks get
// the same result.
float distance_to_root(const Communicator& comm, const std::vector<float>& mine) {
  std::vector<float> of_root = mine;
  broadcast_tree<float>(comm, of_root, 0);
  float largest = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    largest = std::max(largest, std::abs(mine[i] - of_root[i]));
  }
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_FLOAT, MPI_MAX, comm.get()));
  return largest;
}

struct Losses {
  float lowest;
  float highest;
};

Losses losses_of(const Communicator& comm, float mine) {
  Losses all{mine, mine};
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &all.lowest, 1, MPI_FLOAT, MPI_MIN, comm.get()));
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &all.highest, 1, MPI_FLOAT, MPI_MAX, comm.get()));
  return all;
}

struct Run {
  float spread_before;
  float spread_after;
  float update_difference;  // the largest difference from rank 0's in any step
  float first_loss;         // this rank's
  float last_loss;
};

Run train(const Program& program, bool broadcast_first, Table& table) {
  const Communicator& comm = program.comm;
  Model model(kParameters);
  Generator generator(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  init_linear(std::span(model).first(kInputs), std::span(model).last(1), kInputs, generator);
  if (broadcast_first) broadcast_tree<float>(comm, model, 0);
  const Shard shard = make_shard(program.common.seed, comm.rank());

  Run run{distance_to_root(comm, model), 0, 0, 0, 0};
  std::vector<float> update(kParameters);
  for (int step = 0; step <= kSteps; ++step) {
    const float loss = loss_and_gradient(model, shard, update);
    if (step == 0) run.first_loss = loss;
    run.last_loss = loss;
    const float spread = distance_to_root(comm, model);
    if (step == 0 || step == 10 || step == kSteps) {
      const Losses losses = losses_of(comm, loss);
      table.add({broadcast_first ? "yes" : "no", std::to_string(step),
                 fmt::format("{:.2g}", losses.lowest), fmt::format("{:.2g}", losses.highest),
                 fmt::format("{:.7f}", spread)});
    }
    run.spread_after = spread;
    if (step == kSteps) break;
    average(comm, update);
    for (float& value : update) value *= -kLearningRate;
    run.update_difference = std::max(run.update_difference, distance_to_root(comm, update));
    for (std::size_t i = 0; i < kParameters; ++i) model[i] += update[i];
  }
  return run;
}

}  // namespace

bool break_no_broadcast(const Program& program) {
  Table table({"broadcast first", "step", "lowest loss", "highest", "spread of the replicas"});
  const Run without = train(program, false, table);
  const Run with_it = train(program, true, table);
  table.print(program.console);
  program.console.line(fmt::format(
      "  the ranks' updates differed by at most {} in the {} steps without the broadcast",
      without.update_difference, kSteps));
  rows_in_rank_order(program.console, program.comm,
                     {{"break", "no-broadcast"},
                      {"rank", program.comm.rank()},
                      {"spread_before", significant(without.spread_before)},
                      {"spread_after", significant(without.spread_after)},
                      {"update_difference", significant(without.update_difference)},
                      {"first_loss", significant(without.first_loss)},
                      {"last_loss", significant(without.last_loss)},
                      {"last_loss_with_broadcast", significant(with_it.last_loss)},
                      {"spread_with_broadcast", significant(with_it.spread_after)}});
  // In each step, rounding may change a weight of about 1 by up to 2^-24.
  const float rounding = 1e-7F * kSteps;
  const bool constant = without.spread_before > 100 * rounding &&
                        std::abs(without.spread_after - without.spread_before) < rounding;
  return constant && without.update_difference == 0 && without.last_loss < without.first_loss &&
         with_it.spread_after == 0 && with_it.last_loss < without.last_loss;
}

}  // namespace dist
