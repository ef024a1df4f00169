// What this file adds: a count of the samples that a model classifies correctly.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace dist {

// The number of samples in a batch. Any number gives the same count.
inline constexpr std::size_t kTestBatch = 250;

// The number of correct predictions among the samples that `indices` names. Sends no messages
// of its own. Calls model.forward at least `batches` times, because a model whose layers fetch
// their parameters needs as many calls on every rank.
inline std::size_t count_correct(Mlp& model, const Dataset& dataset,
                                 std::vector<std::size_t> indices, const Stream& stream,
                                 std::size_t batches = 0) {
  DataLoader loader(dataset, kTestBatch, /*drop_last=*/false, stream);
  std::size_t correct = 0;
  std::size_t done = (indices.size() + kTestBatch - 1) / kTestBatch;
  for (const Batch& batch : loader.over(std::move(indices))) {
    correct += correct_answers(model.forward(batch.inputs, stream), batch.targets, stream);
  }
  for (; done < batches; ++done) {
    model.forward(Tensor({1, dataset.features()}, stream.device()), stream);
  }
  return correct;
}

}  // namespace dist
