// Gradients of several batches are added up, and sent once.
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/recorder.hpp"

using namespace dist;
using namespace dist::test;

TEST_CASE("the gradients of a batch taken in parts are sent only once per step",
          "[one process]") {
  const Stream stream(Device{});
  const TensorDataset dataset = make_dataset(12, 200);
  Recorder counter;
  Mlp model = make_model(7, stream);
  DistributedDataParallel ddp(model, counter, stream, {.first_bytes = 0, .bytes = 0});
  DataLoader small(dataset, BatchPlan(4, false, /*batches_per_step=*/3), stream);
  CrossEntropyLoss loss;
  for (const Batch& batch : small.over({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})) {
    CHECK(counter.reduced.empty());
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
  }
  CHECK(counter.reduced.size() == model.parameters().size());
}
