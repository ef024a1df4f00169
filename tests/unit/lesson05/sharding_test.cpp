// Lesson 5: what training with a part of the model on each rank needs: the two halves of an
// all-reduce in every process group, and evaluations with as many forward passes on all ranks.
#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/model/evaluation.hpp"
#include "tests/support/lesson05.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// The carriers whose all-reduce has two halves.
const std::vector<std::string> kWithHalves{"ring", "ring, on a thread", "auto", "mpi", "nccl"};

Floats numbers_of(int of_rank, std::size_t count) {
  Generator generator(static_cast<std::uint64_t>(1000 + of_rank));
  Floats numbers(count);
  fill_normal(numbers, generator);
  return numbers;
}

}  // namespace

TEST_CASE("reduce_scatter leaves each rank its chunk of the sum, and all_gather all of it",
          "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const auto& [name, group] : carriers(device)) {
      if (!std::ranges::count(kWithHalves, name)) continue;
      for (const std::size_t count : {1, 2, 6, 12, 84, 1003}) {
        CAPTURE(to_string(device), name, count);
        const Tensor tensor = group->allocate({count});
        const Floats mine = numbers_of(world().rank(), count);
        Floats sums(count);
        for (int r = 0; r < world().size(); ++r) {
          const Floats theirs = numbers_of(r, count);
          for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
        }
        copy_bytes(stream, tensor.data(), mine.data(), tensor.size_bytes());
        group->start({Collective::Kind::reduce_scatter, tensor, ReduceOp::sum}, stream)
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
        group->all_gather(tensor, stream)->wait(stream);
        CHECK(largest_error(to_host(stream, tensor), sums) < 1e-5);
        world().barrier();
      }
    }
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
