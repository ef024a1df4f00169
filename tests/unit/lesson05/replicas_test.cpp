// Lesson 5: replicas learn the same as one process with the whole batch, and are evaluated
// together.
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "tests/support/lesson05.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("N ranks with batches of B train the model that one process trains with N * B") {
  const std::size_t batch = 4;
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::automatic);
  // Each rank has two full batches and half a batch per epoch.
  const TensorDataset dataset = make_dataset(ranks() * (2 * batch + batch / 2), 300);
  for (const std::string optimizer : {"sgd", "adam"}) {
    const OptimizerOptions options{.name = optimizer};
    for (const bool one_by_one : {false, true}) {
      CAPTURE(optimizer, one_by_one);
      const double lr = optimizer == "sgd" ? 0.1 : 1e-3;
      Mlp model = make_model(100 + rank(), stream);
      Mlp twin = make_model(100, stream);
      const Floats at_first = flat(twin, &Parameter::value, stream);
      DistributedDataParallel parallel(model, *group, stream, caps(one_by_one));
      const auto optimize = make_optimizer(options, model.parameters(), stream);
      const auto optimize_twin = make_optimizer(options, twin.parameters(), stream);
      DistributedSampler sampler(dataset.size(), world().size(), world().rank());
      DistributedSampler twin_sampler(dataset.size(), 1, 0);
      DataLoader loader(dataset, batch, /*drop_last=*/false, stream);
      DataLoader twin_loader(dataset, batch * ranks(), /*drop_last=*/false, stream);
      CrossEntropyLoss loss;
      CrossEntropyLoss twin_loss;
      int steps = 0;
      for (const std::uint64_t epoch : {0U, 1U}) {
        sampler.set_epoch(epoch);
        twin_sampler.set_epoch(epoch);
        auto mine = loader.over(sampler.indices());
        auto whole = twin_loader.over(twin_sampler.indices());
        CHECK(loader.batches(sampler.num_samples()) == 3);
        CHECK(twin_loader.batches(twin_sampler.num_samples()) == 3);
        for (auto ours = mine.begin(), its = whole.begin(); ours != mine.end();
             ++ours, ++its, ++steps) {
          CAPTURE(steps);
          const Batch& part = *ours;
          loss.forward(parallel.forward(part.inputs, stream), part.targets, stream);
          parallel.backward(loss, stream);
          optimize->step(lr, stream);
          const Batch& all = *its;
          CHECK(all.rows() == part.rows() * ranks());
          twin_loss.forward(twin.forward(all.inputs, stream), all.targets, stream);
          twin.backward(twin_loss.grad(), stream);
          optimize_twin->step(lr, stream);

          double mean = loss.value(stream);
          MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_SUM, world().get()));
          mean /= static_cast<double>(ranks());
          const double want = twin_loss.value(stream);
          CHECK(std::abs(mean - want) < 1e-5 * want);
        }
      }
      CHECK(steps == 6);
      const Floats at_last = flat(model, &Parameter::value, stream);
      CHECK(largest_error(at_last, flat(twin, &Parameter::value, stream)) < 1e-5);
      CHECK(largest_error(at_last, at_first) > 1e-3);  // training changed the parameters
      CHECK(first_difference(world(), model.parameters(), stream).empty());
    }
  }
}

TEST_CASE("all ranks together count as many right answers as one rank alone") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  // Test an evaluation of several batches, and one of fewer samples than ranks.
  for (const std::size_t samples : {std::size_t{1003}, std::size_t{5}}) {
    CAPTURE(samples);
    const TensorDataset dataset = make_dataset(samples, 400);
    Evaluation evaluation(dataset, stream);
    std::uint64_t by_all =
        evaluation.count_correct(model, exact_shard(samples, world().size(), world().rank()));
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &by_all, 1, MPI_UINT64_T, MPI_SUM, world().get()));
    std::vector<std::size_t> indices(samples);
    std::iota(indices.begin(), indices.end(), 0U);
    std::size_t by_hand = 0;
    for (const std::size_t index : indices) {
      const Tensor row({1, kWidths.front()}, Device{});
      const std::int32_t label = dataset.get(index, row.span());
      const Floats logits = to_host(stream, model.forward(row, stream));
      if (std::ranges::max_element(logits) - logits.begin() == label) ++by_hand;
    }
    CHECK(by_all == by_hand);
    CHECK(evaluation.count_correct(model, indices) == by_hand);
    if (samples > 100) CHECK(by_hand > 100);
  }
}
