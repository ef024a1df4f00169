// Lesson 5: whole runs with --deterministic, on the CPU and on any GPUs. After every step, runs
// on 1, 2, 4 and 8 processes have the same bits. The flag does not change what is learned.
#include "02_broadcast/fingerprint.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/deterministic/deterministic_data_parallel.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/run.hpp"
#include "tests/support/device_numbers.hpp"
#include "tests/support/virtual_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace dist;
using namespace dist::test;

struct Job {
  std::size_t samples;
  std::size_t global_batch;
  SamplerOptions sampler;
  bool loader_drop_last;
  std::string optimizer;
};

// The record of a run: the fingerprint of all parameters and the loss at each step.
struct Trajectory {
  std::vector<std::uint64_t> parameters;
  std::vector<double> losses;
  std::vector<std::size_t> rows;  // over all ranks
  double accuracy = 0;
  bool operator==(const Trajectory&) const = default;
};

// Trains for three epochs with the same loop as main.cpp.
Trajectory train(const Communicator& comm, bool deterministic, const Job& job, Device device) {
  const Stream stream(device);
  Generator generator(100 + static_cast<std::uint64_t>(comm.rank()));  // rank 0's model counts
  const std::vector<std::size_t> widths{20, 33, 17, 5};
  Mlp model(widths, generator, stream);
  Generator of_data(7);
  const TensorDataset dataset =
      synthetic_dataset(job.samples, widths.front(), widths.back(), of_data);
  const auto group =
      make_process_group(Backend::ours, comm, device, AllReduceAlgorithm::automatic);
  const VirtualRanks ranks = deterministic ? played_by(comm) : VirtualRanks(comm);
  std::unique_ptr<DataParallel> ddp;
  if (deterministic) {
    ddp = std::make_unique<DeterministicDataParallel>(model, *group, stream, ranks);
  } else {
    ddp = std::make_unique<DistributedDataParallel>(model, *group, stream);
  }
  OptimizerOptions options;
  options.name = job.optimizer;
  options.lr = job.optimizer == "sgd" ? 0.05 : 0.01;
  options.momentum = job.optimizer == "sgd" ? 0.9 : 0.0;
  const auto optimizer = make_optimizer(options, model.parameters(), stream);

  const BatchPlan plan(job.global_batch / static_cast<std::size_t>(ranks.count()),
                       job.loader_drop_last);
  DataLoader loader(dataset, plan, stream);
  const StepNumbers numbers(device);
  CrossEntropyLoss loss(numbers);
  optimizer->report_also(loss.numbers());
  Trajectory run;
  std::size_t samples = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (const Batch& part :
         loader.over(batches_in_turn(job.samples, ranks, plan, job.sampler, epoch, 0))) {
      const Tensor logits = ddp->forward(part.inputs, stream);
      loss.forward(logits, part, stream);
      samples += part.rows();
      ddp->backward(loss, stream);
      if (!part.place.ends_step()) continue;
      optimizer->step(options.lr, stream);
      stream.synchronize();
      run.losses.push_back(optimizer->report().loss);
      run.rows.push_back(std::exchange(samples, 0) * static_cast<std::size_t>(comm.size()));
      std::uint64_t hash = 0;
      for (const Parameter& parameter : model.parameters()) {
        hash = fingerprint(to_host(stream, parameter.value), hash);
      }
      run.parameters.push_back(hash);
    }
  }
  Evaluation evaluation(dataset, stream);
  run.accuracy = test_accuracy(comm, model, evaluation);
  return run;
}

}  // namespace

TEST_CASE("after every step, 1, 2, 4 and 8 processes have the same bits",
          "[deterministic][gpu]") {
  for (const Device device : devices()) {
    for (const std::string optimizer : {"adam", "sgd"}) {
      for (const bool drop_last : {false, true}) {
        for (const bool loader_drop_last : {false, true}) {
          // Each virtual rank gets 26 or 25 of the 203 samples. With batches of 3 or 5 the last
          // batch of an epoch is short or dropped.
          for (const std::size_t global_batch : {24U, 40U}) {
            const SamplerOptions sampler{.shuffle = true, .seed = 2, .drop_last = drop_last};
            const Job job{203, global_batch, sampler, loader_drop_last, optimizer};
            CAPTURE(to_string(device), optimizer, drop_last, loader_drop_last, global_batch);
            Trajectory alone;
            in_groups_of(
                1, [&](const Communicator& self) { alone = train(self, true, job, device); });
            const auto epoch = static_cast<std::ptrdiff_t>(alone.losses.size() / 3);
            CHECK(std::accumulate(alone.losses.end() - epoch, alone.losses.end(), 0.0) <
                  std::accumulate(alone.losses.begin(), alone.losses.begin() + epoch, 0.0));
            const std::size_t of_rank = drop_last ? 25 : 26;
            const std::size_t short_rows = kRanks * of_rank % global_batch;
            CHECK(std::ranges::count(alone.rows, global_batch) ==
                  static_cast<std::ptrdiff_t>(3 * (kRanks * of_rank / global_batch)));
            CHECK(std::ranges::count(alone.rows, short_rows) ==
                  (short_rows == 0 || loader_drop_last ? 0 : 3));
            for (const int size : group_sizes()) {
              bool same = true;
              in_groups_of(size, [&](const Communicator& group) {
                same = train(group, true, job, device) == alone;
              });
              CAPTURE(size);
              REQUIRE(all_ranks(same));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("--deterministic trains as usual, except for the last bits", "[deterministic]") {
  // 200 samples and batches of 40 divide evenly, so that both runs learn from the same samples.
  const Job job{200, 40, {.shuffle = true, .seed = 2}, false, "sgd"};
  Trajectory usual, fixed;
  in_groups_of(1, [&](const Communicator& self) {
    usual = train(self, false, job, Device{});
    fixed = train(self, true, job, Device{});
  });
  REQUIRE(all_ranks(usual.losses.size() == 15 && fixed.losses.size() == 15));
  for (std::size_t i = 0; i < usual.losses.size(); ++i) {
    CHECK(std::abs(usual.losses[i] - fixed.losses[i]) < 1e-5);
  }
  CHECK(usual.accuracy == fixed.accuracy);
  // Without the flag, the bits do depend on the number of ranks, which shows that the test
  // above can fail.
  for (const int size : group_sizes()) {
    if (size == 1) continue;
    in_groups_of(size, [&](const Communicator& group) {
      const Trajectory more = train(group, false, job, Device{});
      CHECK(more.parameters != usual.parameters);
      CHECK(std::abs(more.losses.back() - usual.losses.back()) < 1e-5);
    });
  }
}
