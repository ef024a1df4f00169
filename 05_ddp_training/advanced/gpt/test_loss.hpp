// What this file adds: the loss on a text that the model has not learned from.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/weighted_mean.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/module.hpp"

namespace dist {

// The mean over all tokens of all windows, in nats, of which a rank takes `batch_size` at a
// time. Called on all ranks of `comm`; all get the same. The ranks have unequal shares, so it
// is lesson 4's weighted mean.
inline double test_loss(Module& model, const Dataset& windows, std::size_t batch_size,
                        const Communicator& comm, const Stream& stream) {
  const auto mine = exact_shard(windows.size(), comm.size(), comm.rank());
  DataLoader loader(windows, batch_size, /*drop_last=*/false, stream);
  CrossEntropyLoss loss;
  double sum = 0;
  for (const Batch& batch : loader.over(mine)) {
    loss.forward(model.forward(batch.inputs, stream), batch, stream);
    sum += loss.value(stream) * static_cast<double>(batch.rows());
  }
  return mean_over_samples(comm, sum, mine.size());
}

}  // namespace dist
