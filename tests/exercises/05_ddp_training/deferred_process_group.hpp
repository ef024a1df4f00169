// A process group that records each call and does the work as late as allowed: waiting for an
// all-reduce runs it and those started before it, in order. Until then its tensor holds NaN, so
// that using the tensor too early is noticed.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dist::exercise {

class DeferredProcessGroup : public ProcessGroup {
 public:
  explicit DeferredProcessGroup(const Communicator& comm) : comm_(comm) {}

  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
  std::unique_ptr<Work> all_reduce(const Tensor& tensor, ReduceOp op, const Stream&,
                                   const std::string&, std::span<double>) override {
    const auto span = tensor.span();
    started_.push_back({tensor, {span.begin(), span.end()}, op, false, false});
    std::ranges::fill(span, std::numeric_limits<float>::quiet_NaN());
    return std::make_unique<DeferredWork>(*this, started_.size() - 1);
  }
  std::unique_ptr<Work> reduce_scatter(const Tensor&, ReduceOp, const Stream&,
                                       const std::string&, std::span<double>) override {
    throw Error("this exercise needs an all-reduce");
  }
  std::unique_ptr<Work> all_gather(const Tensor&, const Stream&, const std::string&) override {
    throw Error("this exercise needs an all-reduce");
  }
  std::unique_ptr<Work> broadcast(const Tensor&, int, const Stream&) override {
    throw Error("this exercise needs an all-reduce, not a broadcast");
  }
  const Communicator& comm() const override { return comm_; }
  void synchronize(const Event&) override {
    if (!started_.empty()) finish(started_.size() - 1);
  }
  bool overlaps() const override { return true; }
  std::string description() const override { return "deferred"; }

  // The number of elements of each all-reduce, in the order in which they were started.
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const Started& started : started_) all.push_back(started.tensor.numel());
    return all;
  }
  // The number of all-reduces that have not been waited for.
  std::size_t not_waited_for() const {
    return static_cast<std::size_t>(std::ranges::count(started_, false, &Started::waited));
  }

 private:
  struct Started {
    Tensor tensor;
    std::vector<float> numbers;
    ReduceOp op;
    bool done;
    bool waited;
  };

  class DeferredWork : public Work {
   public:
    DeferredWork(DeferredProcessGroup& group, std::size_t index)
        : group_(group), index_(index) {}
    bool is_completed() override { return group_.started_[index_].done; }
    void wait(const Stream&) override {
      group_.finish(index_);
      group_.started_[index_].waited = true;
    }
    void synchronize() override { wait(Stream(Device{})); }
    double elapsed_ms() override { return 0; }

   private:
    DeferredProcessGroup& group_;
    std::size_t index_;
  };

  void finish(std::size_t last) {
    for (std::size_t i = 0; i <= last; ++i) {
      Started& next = started_[i];
      if (next.done) continue;
      dist::all_reduce<float>(comm_, next.numbers, next.op);
      std::ranges::copy(next.numbers, next.tensor.data());
      next.done = true;
    }
  }

  const Communicator& comm_;
  std::vector<Started> started_;
};

}  // namespace dist::exercise
