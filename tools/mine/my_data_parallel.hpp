// Data parallelism built from the reader's parts, which broadcast the initial parameters,
// choose this rank's samples and average the gradients.
#pragma once

#include "02_broadcast/random.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/communication_times.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "common/watch.hpp"
#include "tools/mine/parts.hpp"

#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dist::mine {

class MyDataParallel {
 public:
  // Called on all ranks. `group` only averages the loss.
  MyDataParallel(Mlp& module, ProcessGroup& group) : module_(module), group_(group) {
    for (const Parameter& parameter : module.parameters()) {
      tree_broadcast(group.comm(), parameter.value.span(), 0);
    }
  }

  Tensor forward(const Tensor& input, const Stream& stream) {
    const CallScope scope("forward");
    return module_.forward(input, stream);
  }

  void backward(const CrossEntropyLoss& loss, const Stream& stream) {
    module_.backward(loss.grad(), stream);
    std::vector<std::span<float>> gradients;  // last layer first, as in the course's buckets
    for (const Parameter& parameter : module_.parameters()) {
      gradients.emplace(gradients.begin(), parameter.grad.data(), parameter.grad.numel());
    }
    Event begin = stream.record_event();
    {
      const CallScope scope("all_reduce", "bucket 0: all gradients");
      sync_gradients(group_.comm(), gradients);
    }
    step_.emplace().works.push_back(
        std::make_shared<Work>(std::move(begin), stream.record_event()));
    const Tensor nothing({0}, stream.device());
    group_.all_reduce(nothing, ReduceOp::avg, stream, "", loss.numbers())->wait(stream);
  }
  std::optional<Communication> take_communication() {
    return std::exchange(step_, std::nullopt);
  }

 private:
  Mlp& module_;
  ProcessGroup& group_;
  std::optional<Communication> step_;
};

// Like DistributedSampler, but uses the reader's my_indices.
class MySampler {
 public:
  MySampler(std::size_t dataset_size, const Communicator& comm, SamplerOptions options)
      : dataset_size_(dataset_size), comm_(comm), options_(options) {}

  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  // Like DistributedSampler's function, but here every run starts with a whole epoch, so
  // `taken` is always 0.
  std::vector<std::size_t> indices_after(std::size_t /*taken*/) const {
    std::vector<std::size_t> order(dataset_size_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (options_.shuffle) {
      Generator generator(options_.seed + epoch_);
      order = randperm(dataset_size_, generator);
    }
    return my_indices(order, comm_.size(), comm_.rank(), options_.drop_last);
  }

 private:
  std::size_t dataset_size_;
  const Communicator& comm_;
  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
};

}  // namespace dist::mine
