// What this file adds: checks of a trained model: its accuracy, and whether training diverged.
#pragma once

#include "01_send_recv/gpu/host_copy.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/communicator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// Keeps its memory from one evaluation to the next.
class Evaluation {
 public:
  static constexpr std::size_t kBatch = 250;  // predictions; any number gives the same count

  // `dataset` and `stream` must outlive this.
  Evaluation(const Dataset& dataset, const Stream& stream)
      : dataset_(dataset),
        stream_(stream),
        batch_(std::max<std::size_t>(1, kBatch / dataset.targets())),
        loader_(dataset, batch_, /*drop_last=*/false, stream),
        hits_({dataset.size() * dataset.targets()}, stream.device()) {}

  // The number of correct predictions for the samples that `indices` names, each at most once,
  // and each with dataset.targets() predictions. Calls model.forward at least `batches` times.
  std::size_t count_correct(Module& model, const std::vector<std::size_t>& indices,
                            std::size_t batches = 0) {
    std::size_t done = 0;
    for (const Batch& batch : loader_.over(indices)) {
      const Tensor logits = model.forward(batch.inputs, stream_);
      count_hits(stream_, batch.targets.size(), logits.dim(1), logits.data(),
                 batch.targets.data(), hits_.data() + done * batch_ * dataset_.targets());
      ++done;
    }
    for (; done < batches; ++done) {
      model.forward(Tensor({1, dataset_.features()}, stream_.device()), stream_);
    }
    const std::vector<float> hits =
        to_host(stream_, hits_.narrow(0, indices.size() * dataset_.targets()));
    return static_cast<std::size_t>(std::accumulate(hits.begin(), hits.end(), 0.0));
  }

  // Called on all ranks of `comm`; all get the same result: the fraction of the predictions for
  // all samples that is correct. The ranks test different batches. Each batch holds the same
  // samples whatever the number of ranks, and the counts are added up, so the result does not
  // depend on that number. A model whose layers fetch their parameters needs `equally_many`
  // calls of forward on every rank.
  double accuracy(Module& model, const Communicator& comm = Communicator::alone(),
                  bool equally_many = false) {
    const std::size_t samples = dataset_.size();
    const auto ranks = static_cast<std::size_t>(comm.size());
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < samples; ++i) {
      if (i / batch_ % ranks == static_cast<std::size_t>(comm.rank())) mine.push_back(i);
    }
    const std::size_t batches = (samples + batch_ - 1) / batch_;
    const std::size_t most = equally_many ? (batches + ranks - 1) / ranks : 0;
    const auto counts = comm.all_gather(count_correct(model, mine, most));
    const std::size_t correct = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    return static_cast<double>(correct) / static_cast<double>(samples * dataset_.targets());
  }

 private:
  const Dataset& dataset_;
  const Stream& stream_;
  std::size_t batch_;  // samples
  DataLoader loader_;
  Tensor hits_;  // for each prediction, 1 if it is correct, else 0
};

// The place of the first of some parameters, or of an optimizer's states, that has a number
// which is not finite; nullopt if none has.
std::optional<std::size_t> first_not_finite(const auto& list, const Stream& stream) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool finite = read_on_host(stream, list[i].value, [](std::span<const float> values) {
      return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
    });
    if (!finite) return i;
  }
  return std::nullopt;
}

bool all_finite(const auto& list, const Stream& stream) {
  return !first_not_finite(list, stream);
}

}  // namespace dist
