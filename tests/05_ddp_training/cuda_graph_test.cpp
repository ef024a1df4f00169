// Lesson 5: steps of any sizes, in any order, can be captured and replayed (StepGraph). To try
// 100 orders instead of 20, set CAPTURE_ORDERS=100.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/trainer/step_graph.hpp"
#include "tests/support/lesson05.hpp"

#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

struct Outcome {
  Floats parameters;
  std::size_t kernels = 0;
};

// Trains with batches of random sizes, in random numbers of parts. Between the steps, evaluates
// the model and compares the replicas at random. `seed` decides about all of this.
Outcome train(unsigned seed, bool replays, Device device) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::size_t{random() % n}; };
  std::vector<std::size_t> widths{784, 512, 512, 512, 10};
  if (seed % 25 != 0) {
    widths.assign(2 + below(3), 0);
    for (std::size_t& width : widths) width = 2 + below(40);
  }
  const std::size_t full = seed % 25 != 0 ? 2 + below(70) : 64;

  const Stream stream(device);
  Generator generator(seed);
  const bool rounds = below(4) == 0 && why_no_bf16(device).empty();
  Mlp model(widths, generator, stream, rounds ? Precision::bf16 : Precision::fp32);
  const auto group =
      make_process_group(Backend::nccl, world(), device, AllReduceAlgorithm::ring);
  Optimizer optimizer({.kind = OptimizerKind::adam}, model.parameters(), stream);
  DistributedDataParallel ddp(model, *group, stream, {1000, 4000});
  CrossEntropyLoss loss;
  const Buffer<double> value(1, device);
  loss.write_to(value.data());
  ddp.carry({value.data(), 1});
  StepGraph graph(stream, replays);  // ends before what its steps use

  const TensorDataset data = make_dataset(600, seed_of_this_rank(seed), widths);
  DataLoader loader(data, full, /*drop_last=*/false, stream);
  const auto batch_of = [&](std::size_t rows, std::size_t part, std::size_t parts) {
    std::vector<std::size_t> indices(rows);
    std::iota(indices.begin(), indices.end(), below(data.size() - full));
    auto range = loader.over(std::vector<BatchSamples>{
        {indices, {.part = part, .parts = parts, .accumulate = parts}}});
    return *range.begin();
  };
  const std::vector<std::size_t> sizes{full, 1 + below(full), 1, 1 + below(full)};
  for (int step = 0; step < 30; ++step) {
    const std::size_t parts = below(3) == 0 ? 1 + below(4) : 1;
    const std::size_t rows = sizes[below(sizes.size())];
    for (std::size_t part = 0; part < parts; ++part) {
      const Batch batch = batch_of(rows, part, parts);
      if (batch.place.ends_step()) optimizer.set_next_lr(1e-3);
      graph.run(batch, [&] {
        loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
        ddp.backward(loss.grad(), batch.place, stream);
        if (batch.place.ends_step()) optimizer.step(stream);
      });
    }
    if (step % 8 == 7) group->synchronize(stream.record_event());  // kMostStepsInFlight
    if (below(6) == 0) {
      // Its memory ends with it, except for the batch that the model remembers.
      Evaluation evaluation(data, stream);
      std::vector<std::size_t> indices(1 + below(data.size()));
      std::iota(indices.begin(), indices.end(), 0U);
      evaluation.count_correct(model, indices);
    }
    if (below(6) == 0) {
      CHECK(first_difference(world(), model.parameters(), stream).empty());
    }
  }
  group->synchronize(stream.record_event());
  return {flat(model, &Parameter::value, stream), graph.kernels()};
}

}  // namespace

TEST_CASE("replayed steps of any sizes, in any order, equal plain ones", "[gpu]") {
  const Device device = choose_device(world(), "auto").device;
  if (!why_no_nccl(device).empty()) return skip("without NCCL, there are no graphs");
  const char* const number = std::getenv("CAPTURE_ORDERS");
  const unsigned orders = number != nullptr ? static_cast<unsigned>(std::atoi(number)) : 20;
  std::size_t captured = 0;
  for (unsigned seed = 0; seed < orders; ++seed) {
    CAPTURE(seed);
    const Outcome replayed = train(seed, true, device);
    CHECK(largest_error(replayed.parameters, train(seed, false, device).parameters) < 1e-5);
    captured += replayed.kernels > 0 ? 1 : 0;
  }
  CHECK(captured > orders * 9 / 10);
}
