// Lesson 5, advanced: the two halves of an all-reduce in every process group, and training with
// a part of the model on each rank.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "05_ddp_training/sharding/sharded_optimizer.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

constexpr BucketCaps kSmallBuckets{.first_bytes = 100, .bytes = 300};

struct Route {
  std::string name;
  std::unique_ptr<ProcessGroup> group;
};
// All ranks must call this function.
std::vector<Route> routes(Device device) {
  std::vector<Route> all;
  const auto add = [&](const std::string& name, Backend backend, AllReduceAlgorithm algorithm,
                       bool overlap = false) {
    all.push_back({name, make_process_group(backend, world(), device, algorithm, overlap)});
  };
  add("ring", Backend::ours, AllReduceAlgorithm::ring);
  add("ring, on a thread", Backend::ours, AllReduceAlgorithm::ring, true);
  add("auto", Backend::ours, AllReduceAlgorithm::automatic);
  add("mpi", Backend::mpi, AllReduceAlgorithm::mpi);
  if (why_no_nccl(world(), device).empty()) {
    add("nccl", Backend::nccl, AllReduceAlgorithm::automatic);
  }
  return all;
}

Floats numbers_of(int of_rank, std::size_t count) {
  Generator generator(static_cast<std::uint64_t>(1000 + of_rank));
  Floats numbers(count);
  fill_normal(numbers, generator);
  return numbers;
}

// Every parameter, as rank 0 sees it; empty on the other ranks.
Floats whole(const Shard& shard, const Stream& stream) {
  Floats all;
  for (std::size_t p = 0; p < shard.parts().size(); ++p) {
    const Tensor value = shard.gather(p, shard.parts()[p].value, stream);
    all.insert(all.end(), value.data(), value.data() + value.numel());
  }
  return all;
}

}  // namespace

TEST_CASE("reduce_scatter leaves each rank its chunk of the sum, and all_gather all of it",
          "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const Route& route : routes(device)) {
      for (const std::size_t count : {1, 2, 6, 12, 84, 1003}) {
        CAPTURE(to_string(device), route.name, count);
        const Tensor tensor = route.group->allocate({count});
        const Floats mine = numbers_of(world().rank(), count);
        Floats sums(count);
        for (int r = 0; r < world().size(); ++r) {
          const Floats theirs = numbers_of(r, count);
          for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
        }
        copy_bytes(stream, tensor.data(), mine.data(), tensor.size_bytes());
        route.group->start({Collective::Kind::reduce_scatter, tensor, ReduceOp::sum}, stream)
            ->wait(stream);
        const ChunkRange chunk = chunk_range(count, world().size(), world().rank());
        const Floats scattered = to_host(stream, tensor);
        double error = 0;
        for (std::size_t i = chunk.begin; i < chunk.begin + chunk.count; ++i) {
          error = std::max(error, std::abs(static_cast<double>(scattered[i] - sums[i])));
        }
        CHECK(error < 1e-5);
        // Only this rank's chunk may be used from here on.
        Floats rest(count, -7.0F);
        std::ranges::copy(window(std::span(scattered), chunk),
                          window(std::span(rest), chunk).begin());
        copy_bytes(stream, tensor.data(), rest.data(), tensor.size_bytes());
        route.group->all_gather(tensor, stream)->wait(stream);
        CHECK(largest_error(to_host(stream, tensor), sums) < 1e-5);
        world().barrier();
      }
    }
  }
}

TEST_CASE("a sharded model learns what a replicated one learns, on every device", "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const Route& route : routes(device)) {
      for (const ShardLevel level :
           {ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
        CAPTURE(to_string(device), route.name, static_cast<int>(level));
        Mlp replica = make_model(100 + rank(), stream);
        Mlp sharded = make_model(100 + rank(), stream);
        Shard shard(level, sharded.parameters(), kSmallBuckets, world());
        const OptimizerOptions adam{.name = "adam"};
        const auto update = make_optimizer(adam, replica.parameters(), stream);
        ShardedOptimizer update_part(adam, shard, stream);
        DistributedDataParallel ddp(replica, *route.group, stream, kSmallBuckets);
        ShardedDataParallel parts(sharded, *route.group, stream, shard, ReduceOp::avg);
        update_part.connect(*route.group);
        const TensorDataset dataset = make_dataset(9, 200 + rank());
        DataLoader loader(dataset, 4, /*drop_last=*/false, stream);
        CrossEntropyLoss loss;
        for (const Batch& batch : loader.over({8, 7, 6, 5, 4, 3, 2, 1, 0})) {
          for (DataParallel* parallel :
               {static_cast<DataParallel*>(&ddp), static_cast<DataParallel*>(&parts)}) {
            loss.forward(parallel->forward(batch.inputs, stream), batch.targets, stream);
            parallel->backward(loss, stream);
            (parallel == &ddp ? *update : update_part).step(0.01, stream);
          }
        }
        const Floats all = whole(shard, stream);
        const Floats wanted = flat(replica, &Parameter::value, stream);
        if (rank() == 0) CHECK(largest_error(all, wanted) < 1e-6);
        route.group->synchronize(stream.record_event());
        world().barrier();
      }
    }
  }
}

TEST_CASE("a NaN in one rank's part stops the update on all ranks") {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::ring);
  for (int poisoned = 0; poisoned < world().size(); ++poisoned) {
    Mlp model = make_model(100, stream);
    Shard shard(ShardLevel::gradients, model.parameters(), kSmallBuckets, world());
    ShardedOptimizer update({.name = "adam"}, shard, stream);
    ShardedDataParallel parallel(model, *group, stream, shard, ReduceOp::avg);
    update.connect(*group);
    const Floats before = flat(model, &Parameter::value, stream);
    std::int64_t culprit = -1;
    for (std::size_t p = 0; p < shard.parts().size(); ++p) {
      const std::span<float> part = shard.parts()[p].grad.span();
      std::ranges::fill(part, 0.5F);
      if (world().rank() != poisoned || part.empty() || culprit >= 0) continue;
      part.back() = std::numeric_limits<float>::quiet_NaN();
      culprit = static_cast<std::int64_t>(p);
    }
    MPI_CHECK(MPI_Bcast(&culprit, 1, MPI_INT64_T, poisoned, world().get()));
    update.step(0.01, stream);
    CHECK(update.report().culprit == culprit);
    CHECK((flat(model, &Parameter::value, stream) == before) == (culprit >= 0));
  }
}

TEST_CASE("an evaluation makes as many forward passes as the rank with the most batches") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  std::size_t passes = 0;
  model.before_layer([&](std::size_t layer) { passes += layer == 0 ? 1 : 0; });
  const TensorDataset dataset = make_dataset(9, 200);
  Evaluation evaluation(dataset, stream);
  const std::size_t correct = evaluation.count_correct(model, {0, 1, 2, 3});
  CHECK(passes == 1);
  CHECK(evaluation.count_correct(model, {0, 1, 2, 3}, 3) == correct);
  CHECK(passes == 1 + 3);
  CHECK(evaluation.count_correct(model, {}, 2) == 0);
  CHECK(passes == 1 + 3 + 2);
}
