// Belief:  N ranks are N times as fast.
// Predict: the batch of a model of 108 numbers is divided among the ranks. Measured beforehand:
//          a step of one process with the whole batch, one with a rank's share, and alpha, the
//          time that it takes all ranks to pass a small message to the right. What is the
//          speed-up?
// You see: a speed-up below 1, predicted before it is measured: N ranks are slower than one.
// Why:     a ring sends 2 (N - 1) messages one after another, and each takes at least alpha. A
//          share of a small batch takes nearly as long as the whole, so little time is saved.
#include "01_send_recv/measure.hpp"
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/watch.hpp"

#include <array>

namespace dist {

constexpr std::size_t kRowsPerRank = 4;

// Called on all ranks of `comm`. The median time, on the slowest rank.
static double microseconds(const Communicator& comm, auto repeated) {
  constexpr int kRepetitions = 16;
  const auto all = [&] {
    for (int i = 0; i < kRepetitions; ++i) repeated();
  };
  return 1e6 / kRepetitions * median_of_slowest(comm, 50, all);
}

// A step over `rows` random samples. If there is a `group`, its ranks average their gradients.
static double step_us(const Communicator& comm, std::size_t rows,
                      ProcessGroup* group = nullptr) {
  const Stream stream(Device{});
  Generator generator(/*seed=*/0);
  Mlp model({8, 8, 4}, generator, stream);
  Optimizer optimizer({.kind = OptimizerKind::sgd}, model.parameters(), stream);
  std::optional<DistributedDataParallel> ddp;
  if (group != nullptr) ddp.emplace(model, *group, stream);
  const Tensor inputs({rows, 8}, Device{});
  fill_normal(inputs.span(), generator);
  const std::vector<std::int32_t> targets(rows, 0);
  CrossEntropyLoss loss;
  return microseconds(comm, [&] {
    loss.forward(model.forward(inputs, stream), targets, stream);
    ddp ? ddp->backward(loss.grad(), {}, stream) : model.backward(loss.grad(), stream);
    optimizer.step(0.01, stream);
  });
}

bool break_tiny_model(const Program& program) {
  const Communicator& comm = program.comm;
  const Communicator single = comm.split(/*color=*/comm.rank(), 0);
  // Rank 0 measures while the others wait without using their cores.
  std::array<double, 2> alone{};
  if (comm.rank() == 0) {
    alone = {step_us(single, static_cast<std::size_t>(comm.size()) * kRowsPerRank),
             step_us(single, kRowsPerRank)};
  }
  set_patience(Patience::always);
  broadcast<double>(comm, alone, 0);
  set_patience(Patience::by_load);
  const auto [whole_us, share_us] = alone;
  const double alpha_us = microseconds(comm, [&, out = std::array{0.0F}]() mutable {
    std::array<float, 1> in{};
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  });
  const int messages = 2 * (comm.size() - 1);
  say(program,
      "  one process: {:.1f} us per step, {:.1f} with a rank's share of the batch; alpha "
      "{:.1f} us",
      whole_us, share_us, alpha_us);
  say(program, "  predicted: {:.1f} / ({:.1f} + {} x {:.1f}) = {:.2f}", whole_us, share_us,
      messages, alpha_us, whole_us / (share_us + messages * alpha_us));

  const auto ours = make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring);
  const double together_us = step_us(comm, kRowsPerRank, ours.get());
  say(program, "  measured:  {:.1f} us per step on {} ranks, a speed-up of {:.2f}", together_us,
      comm.size(), whole_us / together_us);
  return comm.rank() != 0 || together_us > whole_us;
}

}  // namespace dist
