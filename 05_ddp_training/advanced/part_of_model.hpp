// What tensor_parallel.cpp and pipeline_parallel.cpp share: their flags, the table of ranks,
// and a training loop that ends by comparing everything with one process that trains alone.
//
// For the comparison, every rank keeps the whole model. A program for a model that does not fit
// would draw only its own part.
#pragma once

#include "02_broadcast/binomial_tree.hpp"
#include "03_all_reduce/ring.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/watch.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// A step of SGD is linear in the gradients, so sums in another order change only the last bits
// of the result. Adam divides by a gradient's size: it would turn the last bits of a gradient
// near 0 into a step of full length.
inline const OptimizerOptions kOptimizer{.name = "sgd", .lr = 0.02, .momentum = 0.9};

struct PartOptions {
  std::vector<std::size_t> layers{784, 512, 512, 512, 10};
  std::size_t steps = 100, batch_size = 64, seed = 0;
  int replicas = 1;
  bool json = false;

  void declare(CommandLine& flags, int ranks) {
    flags.list("--layers", layers, "widths of the layers; ReLU between them");
    flags.number("--steps", steps, 1, 1U << 20, "steps of the optimizer");
    flags.number("--batch-size", batch_size, 1, 8000, "samples per step, over all ranks");
    flags.number("--data-parallel", replicas, 1, 1 << 20, "replicas of the divided model");
    flags.number("--seed", seed, 0, 1ULL << 62, "seed of the first parameters");
    flags.flag("--json", json, "print one JSON object per line on standard output");
    flags.check([this, ranks] {
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

// The ranks as a table. The ranks of a row share one replica of the model, and the ranks of a
// column hold the same part of it.
struct RankTable {
  RankTable(const Communicator& all, int replicas)
      : row(all.split(all.rank() / (all.size() / replicas), all.rank())),
        column(all.split(all.rank() % (all.size() / replicas), all.rank())) {}
  Communicator row, column;
};

// A rank's part of a model.
class PartOfModel {
 public:
  virtual ~PartOfModel() = default;
  // Copies of the numbers in `whole`, the parameters of an Mlp, that belong to this rank.
  virtual std::vector<Tensor> part_of(std::span<const Parameter> whole) const = 0;
  // Called on all ranks of a row with the same batch. Writes the gradients of its mean loss.
  // Returns this rank's share of that loss: the shares of the row add up to it.
  virtual double forward_and_backward(const Batch& batch) = 0;
  // The most micro-batches whose activations this rank has held at a time.
  virtual std::size_t most_in_flight() const { return 1; }

  std::span<Parameter> parameters() { return parameters_; }

 protected:
  void start_from(std::span<const Parameter> whole) {
    for (const Tensor& value : part_of(whole)) {
      parameters_.push_back({"", value, Tensor(value.shape(), Device{})});
    }
  }
  std::vector<Parameter> parameters_;  // each layer's weight before its bias
};

// Calls step(batch), which returns a loss, options.steps times. Returns the losses.
template <class Step>
std::vector<double> train_steps(const PartOptions& options, const Dataset& data, int replicas,
                                int replica, const Stream& stream, const Step& step) {
  DistributedSampler sampler(data.size(), replicas, replica);
  DataLoader loader(data, options.batch_size / static_cast<std::size_t>(replicas),
                    /*drop_last=*/true, stream);
  std::vector<double> losses;
  for (std::size_t epoch = 0; losses.size() < options.steps; ++epoch) {
    sampler.set_epoch(epoch);
    for (const Batch& batch : loader.over(sampler.indices())) {
      losses.push_back(step(batch));
      if (losses.size() == options.steps) break;
    }
  }
  return losses;
}

// Called on all ranks. Trains, compares `part` with `whole` trained by one process, prints, and
// returns the exit status.
inline int train(PartOfModel& part, Mlp& whole, const RankTable& table,
                 const Communicator& comm, const PartOptions& options, const Stream& stream) {
  const Console console(options.json, comm.rank() == 0);
  const IdxDataset digits = training_digits();
  const int replicas = table.column.size();
  console.line(fmt::format("{} ranks, {} replica{} of the model, divided among {}", comm.size(),
                           replicas, replicas == 1 ? "" : "s", table.row.size()));

  // [1] All ranks of a row read the same samples. The ranks of a column average the gradients
  // of their part, as in data parallelism.
  const std::span<Parameter> parameters = part.parameters();
  const auto sgd = make_optimizer(kOptimizer, parameters, stream);
  std::optional<Traffic> traffic;  // of the last step
  std::vector<double> losses = train_steps(
      options, digits, replicas, table.column.rank(), stream, [&](const Batch& batch) {
        double loss = 0;
        traffic = count_traffic(comm, [&] {
          loss = part.forward_and_backward(batch) / replicas;
          for (const Parameter& p : parameters) {
            all_reduce_ring(table.column, p.grad.span(), ReduceOp::avg);
          }
        });
        sgd->step(kOptimizer.lr, stream);
        return loss;
      });
  all_reduce_ring(comm, std::span<double>(losses), ReduceOp::sum);

  // [2] Rank 0 trains alone, and every rank takes its part of the result.
  std::vector<double> alone(losses.size());
  if (comm.rank() == 0) {
    const auto sgd_alone = make_optimizer(kOptimizer, whole.parameters(), stream);
    CrossEntropyLoss loss;
    alone = train_steps(options, digits, 1, 0, stream, [&](const Batch& batch) {
      loss.forward(whole.forward(batch.inputs, stream), batch, stream);
      whole.backward(loss.grad(), stream);
      sgd_alone->step(kOptimizer.lr, stream);
      double value = loss.value(stream);
      broadcast_tree(comm, std::span(&value, 1), /*root=*/0);  // nobody waits long
      return value;
    });
  } else {
    for (double& loss : alone) broadcast_tree(comm, std::span(&loss, 1), /*root=*/0);
  }
  for (const Parameter& p : whole.parameters()) broadcast_tree(comm, p.value.span(), 0);

  // [3] The largest differences of the losses and of the parameters.
  std::array<double, 2> worst{};
  const auto compare = [&](std::size_t which, double a, double b) {
    worst[which] = std::isfinite(a - b) ? std::max(worst[which], std::abs(a - b)) : HUGE_VAL;
  };
  // Later, a ReLU that is 0 in one run may be just above 0 in the other, and the runs part. A
  // replica's epoch may also have another last batch.
  const std::size_t compared =
      std::min({losses.size(), std::size_t{100}, digits.size() / options.batch_size});
  for (std::size_t i = 0; i < compared; ++i) compare(0, losses[i], alone[i]);
  std::size_t held = 0, state = 0, at = 0;
  for (const Tensor& right : part.part_of(whole.parameters())) {
    const Tensor& mine = parameters[at++].value;
    for (std::size_t i = 0; i < mine.numel(); ++i) compare(1, mine.data()[i], right.data()[i]);
    held += mine.size_bytes();
  }
  for (const auto& tensor : sgd->state()) state += tensor.value.size_bytes();
  all_reduce_ring(comm, std::span<double>(worst), ReduceOp::max);

  for (std::size_t i = 0; i < losses.size(); ++i) {
    console.row({{"step", i}, {"loss", losses[i]}});
    if (i % 20 == 19) console.line(fmt::format("  step {:3}  loss {:.4f}", i + 1, losses[i]));
  }
  lines_in_rank_order(
      console, comm,
      fmt::format("  rank {} holds {} of parameters, {} of optimizer state; "
                  "batches in flight: {}",
                  comm.rank(), format_bytes(held), format_bytes(state), part.most_in_flight()));
  rows_in_rank_order(console, comm,
                     {{"rank", comm.rank()},
                      {"parameters_bytes", held},
                      {"optimizer_bytes", state},
                      {"most_in_flight", part.most_in_flight()}});
  if (traffic) {
    console.line(fmt::format("a step sends at most {} messages and {} bytes from one rank",
                             traffic->messages_per_rank, traffic->bytes_per_rank));
  }
  console.row({{"final", true},
               {"messages_per_rank", traffic ? Json(traffic->messages_per_rank) : Json()},
               {"bytes_per_rank", traffic ? Json(traffic->bytes_per_rank) : Json()},
               {"loss_difference", worst[0]},
               {"parameter_difference", worst[1]}});
  const std::string found =
      fmt::format("one process's first {} losses within {:.0e}, its parameters within {:.0e}",
                  compared, worst[0], worst[1]);
  const bool equal = worst[0] < 1e-3 && (compared < losses.size() || worst[1] < 1e-3);
  return console.verdict(equal, found, "not " + found);
}

}  // namespace dist
