// Belief:  N ranks are N times as fast.
// Predict: a model has 108 numbers, and its batch is divided among the ranks. Three times are
//          measured beforehand: a step of one process with the whole batch, a step of one
//          process with one rank's share, and alpha, the time that it takes all ranks to pass a
//          small message to the right. What speed-up do they predict?
// You see: a speed-up below 1, predicted before it is measured: N ranks are slower than one.
//          Times depend on the machine and its load. If yours shows a speed-up of 1 or more,
//          the program says that the symptom did not appear.
// Why:     a ring sends 2 (N - 1) messages one after another, and each takes at least alpha. A
//          share of a small batch takes nearly as long as the whole batch, so the ranks save
//          almost no computation.
// In the wild: 2 GPUs are no faster than one, Lightning-AI/pytorch-lightning#5276.
#include "01_send_recv/measure.hpp"
#include "01_send_recv/send_recv.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/process_group/patient_wait.hpp"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <thread>

namespace dist {
namespace {

constexpr std::size_t kRowsPerRank = 4;

// Takes steps over random samples on the CPU, with its own gradients or those averaged by
// `ddp`.
class TinyJob {
 public:
  TinyJob(std::uint64_t seed, std::size_t rows, const Stream& stream)
      : stream_(stream), generator_(seed), model_({8, 8, 4}, generator_, stream) {
    optimizer_ = make_optimizer({.name = "sgd", .lr = 0.01}, model_.parameters(), stream);
    inputs_ = Tensor({rows, 8}, Device{});
    fill_normal(inputs_.span(), generator_);
    for (std::size_t i = 0; i < rows; ++i) targets_.push_back(static_cast<int>(i % 4));
  }
  Mlp& model() { return model_; }

  void step(DistributedDataParallel* ddp = nullptr) {
    loss_.forward(model_.forward(inputs_, stream_), targets_, stream_);
    if (ddp != nullptr) {
      ddp->backward(loss_.grad(), stream_);
    } else {
      model_.backward(loss_.grad(), stream_);
    }
    optimizer_->step(0.01, stream_);
  }
  double median_us() {
    std::vector<double> times;
    for (int i = 0; i < 500; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      step();
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count());
    }
    return median(std::move(times));
  }

 private:
  const Stream& stream_;
  Generator generator_;
  Mlp model_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor inputs_;
  std::vector<std::int32_t> targets_;
  CrossEntropyLoss loss_;
};

// Called on all ranks. Rank 0 measures while the others wait without using their cores.
struct Alone {
  double whole_us;
  double share_us;
};
Alone measured_alone(const Program& program, const Stream& stream) {
  const Communicator& comm = program.comm;
  std::array<double, 2> times{};
  if (comm.rank() == 0) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    times = {TinyJob(program.common.seed, ranks * kRowsPerRank, stream).median_us(),
             TinyJob(program.common.seed, kRowsPerRank, stream).median_us()};
    for (int peer = 1; peer < comm.size(); ++peer) send<double>(comm, times, peer);
  } else {
    wait_patiently(true);
    recv<double>(comm, times, 0);
    wait_patiently(false);
  }
  return {times[0], times[1]};
}

// Called on all ranks. Returns the time that it takes all ranks to pass one number to the
// right, averaged over many repetitions.
double measured_alpha_us(const Communicator& comm) {
  constexpr int kSteps = 16;
  std::array<float, 1> out{};
  std::array<float, 1> in{};
  const auto steps = [&] {
    for (int i = 0; i < kSteps; ++i) {
      send_recv<float>(comm, out, comm.right(), in, comm.left());
    }
  };
  return 1e6 / kSteps *
         median_of_slowest(
             comm, 50, [] {}, steps);
}

}  // namespace

bool break_tiny_model(const Program& program) {
  const Stream stream(Device{});
  const Alone alone = measured_alone(program, stream);
  const double alpha_us = measured_alpha_us(program.comm);
  const int messages = 2 * (program.comm.size() - 1);
  const double predicted = alone.whole_us / (alone.share_us + messages * alpha_us);
  program.console.line(
      fmt::format("  one process: {:.1f} us per step, {:.1f} with a rank's share of the batch; "
                  "alpha {:.1f} us",
                  alone.whole_us, alone.share_us, alpha_us));
  program.console.line(fmt::format("  predicted: {:.1f} / ({:.1f} + {} x {:.1f}) = {:.2f}",
                                   alone.whole_us, alone.share_us, messages, alpha_us,
                                   predicted));

  const auto group =
      make_process_group(Backend::ours, program.comm, Device{}, AllReduceAlgorithm::ring);
  TinyJob job(program.common.seed, kRowsPerRank, stream);
  DistributedDataParallel ddp(job.model(), *group, stream);
  constexpr int kSteps = 8;
  const auto steps = [&] {
    for (int i = 0; i < kSteps; ++i) job.step(&ddp);
  };
  const double together_us = 1e6 / kSteps *
                             median_of_slowest(
                                 program.comm, 50, [] {}, steps);
  const double measured = alone.whole_us / together_us;
  program.console.line(
      fmt::format("  measured:  {:.1f} us per step on {} ranks, a speed-up of {:.2f}",
                  together_us, program.comm.size(), measured));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (program.comm.local_size() > cores) {
    program.console.line(
        fmt::format("{} ranks on {} cores: a message also waits until its receiver gets a core",
                    program.comm.local_size(), cores));
  }
  return program.comm.all_agree(program.comm.rank() != 0 || measured < 1);
}

}  // namespace dist
