// What this file adds: a count of the samples that a model classifies correctly.
#pragma once

#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace dist {

// The number of correct predictions among the samples that `indices` names. Sends no messages.
inline std::size_t count_correct(Mlp& model, const Dataset& dataset,
                                 std::vector<std::size_t> indices, const Stream& stream) {
  constexpr std::size_t kBatch = 250;  // any size gives the same count
  DataLoader loader(dataset, kBatch, /*drop_last=*/false, stream);
  std::size_t correct = 0;
  for (const Batch& batch : loader.over(std::move(indices))) {
    correct += correct_answers(model.forward(batch.inputs, stream), batch.targets, stream);
  }
  return correct;
}

}  // namespace dist
