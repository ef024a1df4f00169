// Data parallelism built from the reader's parts, which broadcast the initial parameters,
// choose this rank's samples and average the gradients.
#pragma once

#include "02_broadcast/random.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/data_parallel.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "tools/mine/parts.hpp"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace dist::mine {

// A process group that uses the reader's broadcast.
class MyProcessGroup : public ProcessGroup {
 public:
  explicit MyProcessGroup(ProcessGroup& group)
      : ProcessGroup(group.comm(), group.overlaps(), group.description()), group_(group) {}
  Tensor allocate(Shape shape) override { return group_.allocate(std::move(shape)); }
  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override {
    if (collective.kind != Collective::Kind::broadcast) {
      return group_.start(collective, producer);
    }
    tree_broadcast(comm(), collective.tensor.span(), collective.root);
    return std::make_unique<Work>(
        std::async(std::launch::deferred, [] { return 0.0; }).share());
  }
  void synchronize(const Event& event) override { group_.synchronize(event); }

 private:
  ProcessGroup& group_;
};

class MyDataParallel : public DataParallel {
 public:
  // Called on all ranks.
  MyDataParallel(Mlp& module, MyProcessGroup& group, const Stream& stream)
      : DataParallel(module, group, stream) {}

 private:
  void backward_and_average(const Tensor& grad_logits, Accumulate accumulate,
                            const Stream& stream) override {
    module_.backward(grad_logits, stream, accumulate);
    computed_ = stream.record_event();
    std::vector<std::span<float>> gradients;  // last layer first, as in the course's buckets
    for (const Parameter& parameter : module_.parameters()) {
      gradients.emplace(gradients.begin(), parameter.grad.data(), parameter.grad.numel());
    }
    const auto begin = std::chrono::steady_clock::now();
    sync_gradients(group_.comm(), gradients);
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begin;
    sync_ms_ = took.count();
  }
  std::function<Durations(const Event&)> take_durations() override {
    return [total = sync_ms_](const Event&) { return Durations{.total = total}; };
  }

  double sync_ms_ = 0;
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
