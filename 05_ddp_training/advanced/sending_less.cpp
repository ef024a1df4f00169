// Sending less than DDP: ddp_by_hand.cpp's loop, with four ways to keep the replicas together.
//
//   mpirun -np 2 build/bin/sending_less --way powersgd --pretend-link 0.2
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "05_ddp_training/advanced/bf16_ring.hpp"
#include "05_ddp_training/advanced/exchange_check.hpp"
#include "05_ddp_training/advanced/outer_optimizer.hpp"
#include "05_ddp_training/advanced/powersgd.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/process_group/pretended_link.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/check.hpp"
#include "common/mpi_environment.hpp"
#include "common/watch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist {
namespace {

struct Options {
  std::string way = "ddp";
  OptimizerKind optimizer = OptimizerKind::adam;
  std::size_t matrix_rank = 4, every = 8, steps = 160;
  double outer_lr = 1, outer_momentum = 0, pretend_link = 0;
  bool outer = false, feedback = true;

  explicit Options(Program& program) {
    CommandLine& flags = program.flags;
    program.common.device = "cpu";
    flags.choice("--way", way, {"ddp", "bf16", "powersgd", "local-sgd"}, "what is sent");
    flags.number("--matrix-rank", matrix_rank, 1, 512, "powersgd: columns of P and Q");
    flags.flag("--feedback,!--no-feedback", feedback, "powersgd: send later what was lost");
    flags.number("--every", every, 1, 1U << 20, "local-sgd: steps between two exchanges");
    flags.number("--outer-lr", outer_lr, 0, 100, "local-sgd: rate of a second optimizer");
    flags.number("--outer-momentum", outer_momentum, 0, 1, "local-sgd: its momentum");
    flags.choice("--optimizer", optimizer, optimizer_names(), "of every rank");
    flags.number("--steps", steps, 1, 1U << 20, "steps of the optimizer");
    flags.number("--pretend-link", pretend_link, 0.01, 1e6, "pretend a link of so many Gbit/s");
    flags.number("--seed", program.common.seed, 0, 1ULL << 62, "seed of the parameters");
    flags.flag("--json", program.common.json, "print one JSON object per line");
    flags.check([this, &flags] {
      for (const auto& [flag, its_way] :
           {std::pair{"--matrix-rank", "powersgd"}, std::pair{"--feedback", "powersgd"},
            std::pair{"--every", "local-sgd"}, std::pair{"--outer-lr", "local-sgd"},
            std::pair{"--outer-momentum", "local-sgd"}}) {
        if (!flags.given(flag) || way == its_way) continue;
        throw Error(fmt::format("{}: is for --way {}, not {}", flag, its_way, way));
      }
      if (watch_table() == nullptr) throw Error("only a build with the watch counts bytes");
      outer = flags.given("--outer-lr") || flags.given("--outer-momentum");
    });
  }
};

// What the ranks exchange, parameter by parameter.
class Exchange {
 public:
  Exchange(const Program& program, const Options& options,
           std::span<const Parameter> parameters, const Stream& stream)
      : comm_(program.comm), options_(options), parameters_(parameters), stream_(stream) {
    for (const Parameter& p : parameters) {
      auto& power = powers_.emplace_back();
      if (options.way != "powersgd" || p.grad.shape().size() != 2) continue;
      power.emplace(p.grad, options.matrix_rank, options.feedback, program.common.seed);
    }
    if (!options.outer) return;
    outer_.emplace(options.outer_lr, options.outer_momentum, parameters, stream);
  }

  // Called on all ranks, which have computed gradients or, for local SGD, taken steps.
  void run() {
    apart = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor& data = local_ ? parameters_[i].value : parameters_[i].grad;
      std::vector<float> due(data.span().begin(), data.span().end());
      if (powers_[i]) {
        const std::span<const float> kept = powers_[i]->kept().span();
        std::ranges::transform(due, kept, due.begin(), std::plus());
        measure([&] { powers_[i]->exchange(comm_, stream_); });
        const bool full = options_.matrix_rank >= std::min(data.dim(0), data.dim(1));
        error = worse(error, error_of_low_rank(comm_, due, data.span(),
                                               options_.feedback ? kept : kept.first(0), full));
      } else {
        const bool rounds = options_.way == "bf16";
        measure([&] {
          if (rounds) return average_in_bf16(comm_, data.span());
          all_reduce_ring(comm_, data.span(), ReduceOp::avg);
        });
        const double rounding = std::exp2(rounds ? -8 : -24);
        error = worse(error, error_of_mean(comm_, due, data.span(), rounding));
        for (std::size_t k = 0; local_ && k < due.size(); ++k) {
          apart = worse(apart, std::abs(due[k] - data.data()[k]));
        }
      }
    }
    if (outer_) measure([&] { outer_->step(); });
  }

  double seconds = 0;  // of all exchanges
  double bytes = 0;    // that the busiest rank sent
  double error = 0;    // relative to the largest that rounding explains
  double apart = 0;    // of local SGD's last exchange: how far a parameter was from the mean

 private:
  void measure(const std::function<void()>& body) {
    const auto timed = [&](const auto& work) {
      const double begin_s = MPI_Wtime();
      work();
      seconds += MPI_Wtime() - begin_s;
    };
    // The time leaves out the messages that add up all ranks' counts.
    const std::optional<Traffic> traffic = count_traffic(comm_, [&] { timed(body); });
    const auto sent = static_cast<double>(traffic.value().bytes_per_rank);
    if (options_.pretend_link > 0) timed([&] { pretend_to_send(sent, options_.pretend_link); });
    bytes += sent;
  }

  const Communicator& comm_;
  const Options& options_;
  bool local_ = options_.way == "local-sgd";
  std::span<const Parameter> parameters_;
  const Stream& stream_;
  std::vector<std::optional<PowerSgd>> powers_;  // for each parameter; set for matrices
  std::optional<OuterOptimizer> outer_;
};

int train(const Program& program, const Options& options) {
  const Communicator& comm = program.comm;
  const Console& console = program.console;
  const IdxDataset digits = training_digits();
  const Stream stream(Device{});
  Generator generator(program.common.seed);  // all ranks draw the same parameters
  Mlp model({digits.features(), 512, 512, 512, digits.classes()}, generator, stream);
  const std::span<Parameter> parameters = model.parameters();
  // SGD's default is too slow for this few steps.
  const double lr = options.optimizer == OptimizerKind::sgd ? 0.1 : facts(options.optimizer).lr;
  Optimizer optimizer({.kind = options.optimizer}, parameters, stream);
  SmallBatches batches{{digits.size(), comm.size(), comm.rank()},
                       {digits, /*batch_size=*/64, /*drop_last=*/true, stream}};
  CrossEntropyLoss loss;
  Exchange exchange(program, options, parameters, stream);
  const bool local = options.way == "local-sgd";
  const std::size_t every = local ? options.every : 1;
  double compute_s = 0;
  std::string difference;  // between replicas: "2.weight of rank 3"
  for (std::size_t step = 1; step <= options.steps; ++step) {
    const double begin_s = MPI_Wtime();
    const Batch& batch = batches.next();
    loss.forward(model.forward(batch.inputs, stream), batch, stream);
    model.backward(loss.grad(), stream);
    const double backward_s = MPI_Wtime();
    if (!local) exchange.run();
    const double update_s = MPI_Wtime();
    optimizer.step(lr, stream);
    compute_s += backward_s - begin_s + MPI_Wtime() - update_s;
    if (step % every == 0 || step == options.steps) {
      if (local) exchange.run();
      if (difference.empty()) difference = first_difference(comm, parameters, stream);
    }
    double mean = loss.value(stream);
    all_reduce_ring(comm, std::span(&mean, 1), ReduceOp::avg);
    console.row({{"step", step - 1}, {"loss", mean}});
    if (step % 20 == 0) console.line("  step {:3}  loss {:.4f}", step, mean);
  }
  all_reduce_ring(comm, std::span(&exchange.error, 1), ReduceOp::max);
  all_reduce_ring(comm, std::span(&exchange.apart, 1), ReduceOp::max);
  const double accuracy = Evaluation(test_digits(), stream).accuracy(model);
  const auto steps = static_cast<double>(options.steps);
  const double step_ms = 1000 * (compute_s + exchange.seconds) / steps;
  console.line("test accuracy {:.2f} %", 100 * accuracy);
  console.line("a rank sends at most {:.0f} bytes per step", exchange.bytes / steps);
  console.line("a step takes {:.1f} ms", step_ms);
  if (local) {
    console.line("before the last exchange, parameters were up to {:.3f} off the mean",
                 exchange.apart);
  }
  console.row({{"final", true},
               {"way", options.way},
               {"ranks", comm.size()},
               {"bytes_sent_per_step", exchange.bytes / steps},
               {"test_accuracy", accuracy},
               {"step_ms", step_ms},
               {"exchange_error", exchange.error},
               {"replicas_identical", difference.empty()}});
  std::string done = "gave the ranks' mean";
  if (options.outer) done += " to the second optimizer";
  if (options.way == "powersgd") done = options.feedback ? "sent or kept all" : "sent a part";
  std::string wrong = wrong_replicas(comm, parameters, stream);
  if (!difference.empty()) wrong = "the replicas differ, first in " + difference;
  if (exchange.error > 1) {
    wrong = fmt::format("an exchange is off by {:.1e} times what rounding explains",
                        exchange.error);
  }
  return console.verdict(
      comm, wrong.empty(),
      fmt::format("every exchange {}, and the replicas are equal, bit for bit", done), wrong);
}

}  // namespace
}  // namespace dist

int main(int argc, char** argv) {
  using namespace dist;
  MpiEnvironment mpi(argc, argv);
  Program program("sending_less", "Data-parallel training that sends less than DDP.");
  Options options(program);
  if (const auto exit = program.start(argc, argv)) return *exit;
  return train(program, options);
}
