// A process group that records each call and does the work as late as allowed: waiting for an
// all-reduce runs it and those started before it, in order. Until then its tensor holds NaN, so
// that using the tensor too early is noticed.
#pragma once

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

#include <algorithm>
#include <cstddef>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dist::exercise {

class DeferredProcessGroup : public ProcessGroup {
 public:
  explicit DeferredProcessGroup(const Communicator& comm)
      : ProcessGroup(comm, /*overlaps=*/true, "deferred") {}

  Tensor allocate(Shape shape) override { return {std::move(shape), Device{}}; }
  std::unique_ptr<Work> start(const Collective& collective, const Stream&) override {
    if (collective.kind != Collective::Kind::all_reduce) {
      throw Error("this exercise needs an all-reduce");
    }
    const std::span<float> span = collective.tensor.span();
    started_.push_back(
        {collective.tensor, {span.begin(), span.end()}, collective.op, false, false});
    std::ranges::fill(span, std::numeric_limits<float>::quiet_NaN());
    // A deferred call runs when the Work is waited for.
    const auto wait = [this, index = started_.size() - 1] {
      finish(index);
      started_[index].waited = true;
      return 0.0;
    };
    return std::make_unique<Work>(std::async(std::launch::deferred, wait).share());
  }
  void synchronize(const Event&) override {
    if (!started_.empty()) finish(started_.size() - 1);
  }

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

  void finish(std::size_t last) {
    for (std::size_t i = 0; i <= last; ++i) {
      Started& next = started_[i];
      if (next.done) continue;
      dist::all_reduce<float>(comm(), next.numbers, next.op);
      std::ranges::copy(next.numbers, next.tensor.data());
      next.done = true;
    }
  }

  std::vector<Started> started_;
};

}  // namespace dist::exercise
