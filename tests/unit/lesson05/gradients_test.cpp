// Lesson 5: with every backend, all ranks get the same mean of the gradients, bit for bit.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/tracer_data.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// Gathers every rank's list with MPI's own collective. All ranks must call it with lists of
// equal length.
std::vector<Floats> gather(const Floats& mine) {
  Floats all(mine.size() * ranks());
  const int count = mpi_count(mine.size());
  MPI_CHECK(MPI_Allgather(mine.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT,
                          world().get()));
  std::vector<Floats> lists;
  for (auto begin = all.begin(); begin != all.end(); begin += count) {
    lists.emplace_back(begin, begin + count);
  }
  return lists;
}

Floats mean_over_ranks(const Floats& mine) {
  const std::vector<Floats> lists = gather(mine);
  Floats mean;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    double sum = 0;
    for (const Floats& list : lists) sum += static_cast<double>(list[i]);
    mean.push_back(static_cast<float>(sum / static_cast<double>(ranks())));
  }
  return mean;
}

}  // namespace

TEST_CASE("every rank starts from rank 0's parameters and gets the mean of the gradients",
          "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const Carrier& carrier : carriers(device)) {
      Mlp alone = make_model(100, stream);  // rank 0's model, which all ranks get
      Mlp bucketed = make_model(100 + rank(), stream);
      Mlp separate = make_model(100 + rank(), stream);
      DistributedDataParallel ddp(bucketed, *carrier.group, stream, caps(false));
      DistributedDataParallel naive(separate, *carrier.group, stream, caps(true));
      const Floats of_rank_0 = flat(alone, &Parameter::value, stream);
      for (const Mlp* model : {&bucketed, &separate}) {
        CHECK(flat(*model, &Parameter::value, stream) == of_rank_0);
      }
      const TensorDataset dataset = make_dataset(9, 200 + rank());
      DataLoader loader(dataset, 4, /*drop_last=*/false, stream);
      CrossEntropyLoss loss;
      for (const Batch& batch : loader.over({8, 7, 6, 5, 4, 3, 2, 1, 0})) {
        CAPTURE(to_string(device), carrier.name, batch.rows());
        loss.forward(alone.forward(batch.inputs, stream), batch.targets, stream);
        alone.backward(loss.grad(), stream);
        const Floats mean = mean_over_ranks(flat(alone, &Parameter::grad, stream));
        const auto reduced = [&](Mlp& model, DistributedDataParallel& parallel) {
          loss.forward(parallel.forward(batch.inputs, stream), batch.targets, stream);
          parallel.backward(loss.grad(), stream);
          const Floats gradients = flat(model, &Parameter::grad, stream);
          CHECK(largest_error(gradients, mean) < 1e-6);
          CHECK(same_bits_everywhere(gradients));
          return gradients;
        };
        const Floats in_bucket = reduced(bucketed, ddp);
        const Floats one_by_one = reduced(separate, naive);
        // The sum of two numbers does not depend on their order, but the sum of three does.
        CHECK(largest_error(in_bucket, one_by_one) <= (ranks() <= 2 ? 0.0 : 1e-6));
      }
    }
  }
}
