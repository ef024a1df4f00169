// What tensor_parallel.cpp and pipeline_parallel.cpp share: the interface to a rank's part of a
// model, their flags, and a training loop that compares every step with that of one process
// (OneProcess).
//
// For the comparison, rank 0 keeps the whole model. A program for a model that does not fit
// would draw only its own part.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dist {

// A step of SGD is linear in the gradients, so sums in another order change only the last bits
// of the result. Adam divides by a gradient's size: it would turn the last bits of a gradient
// near 0 into a step of full length.
inline const OptimizerOptions kOptimizer{
    .kind = OptimizerKind::sgd, .lr = 0.02, .momentum = 0.9};
// What rounding explains: it changes a loss by some 1e-6, and an update by some 1e-5 of its
// length, or by a few percent if it moves the input of a small layer's ReLU across 0.
constexpr double kMostLossError = 1e-4, kMostUpdateError = 0.1;

// The rows and columns of a parameter that a rank has. A bias is a matrix of one column.
struct Held {
  ChunkRange rows, columns;
};

// A rank's part of a model.
class PartOfModel {
 public:
  virtual ~PartOfModel() = default;
  // What the rank `rank` of all ranks has of an Mlp's parameter i of this size, if anything.
  virtual std::optional<Held> held(int rank, std::size_t i, std::size_t rows,
                                   std::size_t columns) const = 0;
  // Called on all ranks of a row with the same batch. Writes the gradients of its mean loss.
  // Returns this rank's share of that loss: the shares of the row add up to it.
  virtual double forward_and_backward(const Batch& batch) = 0;
  // The most micro-batches whose activations this rank has held at a time.
  virtual std::size_t most_in_flight() const { return 1; }

  std::span<Parameter> parameters() { return parameters_; }

 protected:
  void start_from(std::span<const Parameter> whole, int rank) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Tensor& all = whole[i].value;
      const std::size_t width = all.numel() / all.dim(0);
      const std::optional<Held> mine = held(rank, i, all.dim(0), width);
      if (!mine) continue;
      const auto [rows, columns] = *mine;
      const Tensor value({rows.count, columns.count}, Device{});
      for (std::size_t row = 0; row < rows.count; ++row) {
        std::copy_n(all.data() + (rows.begin + row) * width + columns.begin, columns.count,
                    value.data() + row * columns.count);
      }
      parameters_.push_back({"", value, Tensor(value.shape(), Device{})});
    }
  }
  std::vector<Parameter> parameters_;  // each layer's weight before its bias
};

struct PartOptions {
  std::vector<std::size_t> layers{784, 512, 512, 512, 10};
  std::size_t steps = 100, batch_size = 64;
  int replicas = 1;

  explicit PartOptions(Program& program) {
    CommandLine& flags = program.flags;
    program.common.device = "cpu";
    flags.list("--layers", layers, "widths of the layers; ReLU between them");
    flags.number("--steps", steps, 1, 1U << 20, "steps of the optimizer");
    flags.number("--batch-size", batch_size, 1, 8000, "samples per step, over all ranks");
    flags.number("--data-parallel", replicas, 1, 1 << 20, "replicas of the divided model");
    flags.number("--seed", program.common.seed, 0, 1ULL << 62, "seed of the first parameters");
    flags.flag("--json", program.common.json,
               "print one JSON object per line on standard output");
    flags.check([this, ranks = program.comm.size()] {
      check_usage(layers.size() >= 2 && layers.front() == 784 && layers.back() == 10,
                  "--layers: digits need 784 at the beginning and 10 at the end");
      check_usage(ranks % replicas == 0, "--data-parallel: {} does not divide {} ranks",
                  replicas, ranks);
      check_usage(batch_size % static_cast<std::size_t>(replicas) == 0,
                  "--batch-size: {} is not divisible by --data-parallel {}", batch_size,
                  replicas);
    });
  }
};

// Rank 0 takes every step alone, too, from the parameters that the ranks had before it. From
// its own, the runs would part in time: where rounding moves a ReLU's input across 0, a share
// of a gradient comes or goes, and with it all later steps.
struct OneProcess {
  const Communicator& comm;
  SmallTraining& training;  // of the whole model
  // On rank 0: the largest errors (an update's is relative to its length), and the first step,
  // from 1, with an error that rounding does not explain, or 0.
  double loss_error = 0, update_error = 0;
  std::size_t wrong_step = 0;

  // Called on all ranks after a step, with this rank's share of its loss. Returns the loss on
  // rank 0.
  double check(PartOfModel& part, double share) {
    if (comm.rank() != 0) {
      send<double>(comm, std::span(&share, 1), 0);
      for (const Parameter& p : part.parameters()) send<float>(comm, p.value.span(), 0);
      return 0;
    }
    training.right_step();
    const std::span<Parameter> parameters = training.model.parameters();
    double loss = 0;
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank > 0) recv<double>(comm, std::span(&share, 1), rank);
      loss += share;
      std::size_t own = 0;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& all = parameters[i].value;
        const auto held = part.held(rank, i, all.dim(0), all.numel() / all.dim(0));
        if (!held) continue;
        std::vector<float> theirs(held->rows.count * held->columns.count);
        if (rank > 0) recv<float>(comm, theirs, rank);
        replace(i, *held, rank > 0 ? theirs : part.parameters()[own++].value.span());
      }
    }
    loss_error = worse(loss_error, std::abs(loss - training.loss.value(training.stream)));
    const bool equal = loss_error < kMostLossError && update_error < kMostUpdateError;
    if (!equal && wrong_step == 0) wrong_step = training.batches.taken;
    return loss;
  }

 private:
  // Compares, then takes over, what a rank has of parameter i.
  void replace(std::size_t i, const Held& held, std::span<const float> by) {
    const Tensor& all = training.model.parameters()[i].value;
    const std::size_t width = all.numel() / all.dim(0);
    const float* momentum = training.optimizer.state()[i].value.data();
    double error = 0, update = 0, size = 0;  // sums of squares
    for (std::size_t row = 0, k = 0; row < held.rows.count; ++row) {
      std::size_t at = (held.rows.begin + row) * width + held.columns.begin;
      for (std::size_t column = 0; column < held.columns.count; ++column, ++at, ++k) {
        const double right = std::exchange(all.data()[at], by[k]);
        const double moved = kOptimizer.lr * momentum[at];
        error += (by[k] - right) * (by[k] - right);
        update += moved * moved;
        size += right * right;
      }
    }
    if (error == 0) return;
    // An update far below the parameters' own rounding has no length to compare with.
    const double length = std::sqrt(update) + 1e-5 * std::sqrt(size);
    update_error = worse(update_error, std::sqrt(error) / length);
  }
};

// Called on all ranks. Trains a model of which each rank has a Part, made with `rest`, compares
// each step with that of one process, prints, and returns the exit status.
template <class Part, class... Rest>
int train(const Program& program, const PartOptions& options, const Rest&... rest) {
  const Communicator& comm = program.comm;
  const Console& console = program.console;
  // The ranks are a table. The ranks of a row share one replica of the model, and the ranks of
  // a column hold the same part of it.
  const int replicas = options.replicas, width = comm.size() / replicas;
  const Communicator row = comm.split(comm.rank() / width, comm.rank());
  const Communicator column = comm.split(comm.rank() % width, comm.rank());
  console.line("{} ranks, {} replica{} of the model, divided among {}", comm.size(), replicas,
               replicas == 1 ? "" : "s", width);

  SmallTraining whole({options.layers, kOptimizer, options.batch_size}, Communicator::alone(),
                      training_digits(), program.common.seed, {});
  Part part(row, whole.model.parameters(), whole.stream, rest...);
  const std::span<Parameter> parameters = part.parameters();
  Optimizer sgd(kOptimizer, parameters, whole.stream);
  OneProcess alone{comm, whole};
  // Batch i of one process has the samples of all replicas' batches i.
  SmallBatches batches{{whole.digits.size(), replicas, column.rank(), {.drop_last = true}},
                       {whole.digits, options.batch_size / static_cast<std::size_t>(replicas),
                        /*drop_last=*/true, whole.stream}};
  std::optional<Traffic> traffic;  // of the last step
  for (std::size_t step = 0; step < options.steps; ++step) {
    // All ranks of a row read the same samples. The ranks of a column average the gradients of
    // their part, as in data parallelism.
    double share = 0;  // of the loss
    traffic = count_traffic(comm, [&] {
      share = part.forward_and_backward(batches.next()) / replicas;
      for (const Parameter& p : parameters) {
        all_reduce_ring(column, p.grad.span(), ReduceOp::avg);
      }
    });
    sgd.step(kOptimizer.lr, whole.stream);
    const double loss = alone.check(part, share);
    console.row({{"step", step}, {"loss", loss}});
    if (step % 20 == 19) console.line("  step {:3}  loss {:.4f}", step + 1, loss);
  }

  std::size_t held = 0, state = 0;
  for (const Parameter& p : parameters) held += p.value.size_bytes();
  for (const auto& tensor : sgd.state()) state += tensor.value.size_bytes();
  lines_in_rank_order(console, comm,
                      "  rank {} holds {} of parameters, {} of optimizer state; "
                      "batches in flight: {}",
                      comm.rank(), format_bytes(held), format_bytes(state),
                      part.most_in_flight());
  rows_in_rank_order(console, comm,
                     {{"rank", comm.rank()},
                      {"parameters_bytes", held},
                      {"optimizer_bytes", state},
                      {"most_in_flight", part.most_in_flight()}});
  if (traffic) {
    console.line("a step sends at most {} messages and {} bytes from one rank",
                 traffic->messages_per_rank, traffic->bytes_per_rank);
  }
  console.row({{"final", true},
               {"messages_per_rank", traffic ? Json(traffic->messages_per_rank) : Json()},
               {"bytes_per_rank", traffic ? Json(traffic->bytes_per_rank) : Json()},
               {"loss_difference", alone.loss_error},
               {"parameter_difference", alone.update_error}});
  const std::string found = fmt::format(
      "one process's: the loss to within {:.0e}, the update to within {:.0e} of its length",
      alone.loss_error, alone.update_error);
  return console.verdict(comm, alone.wrong_step == 0,
                         fmt::format("each of {} steps is {}", options.steps, found),
                         fmt::format("step {} is not {}", alone.wrong_step, found));
}

}  // namespace dist
