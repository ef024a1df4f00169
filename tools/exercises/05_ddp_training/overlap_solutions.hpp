// Our solution of the exercise overlap. More are in overlap_changes.toml.
#pragma once

#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "common/check.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace dist::exercise {

// == reference | done
// The reference. In the lesson's Reducer, the gradients are views of the messages, so nothing
// is copied.
class BucketedSync : public GradientSync {
 public:
  BucketedSync(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
               const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute),
        ready_(gradients_.size(), false),
        works_(plan_.size()) {
    for (const auto& bucket : plan_) {
      std::size_t count = 0;
      for (const std::size_t index : bucket) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
    }
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    while (next_ < plan_.size() && is_full(next_)) start(next_++);
  }

  void finalize() override {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!ready_[i]) throw Error("the gradient of " + gradients_[i].name + " is missing");
    }
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      works_[b]->wait(compute_);
      const float* from = messages_[b].data();
      for (const std::size_t index : plan_[b]) {
        const auto& values = gradients_[index].values;
        std::copy_n(from, values.size(), values.begin());
        from += values.size();
      }
    }
    ready_.assign(ready_.size(), false);
    next_ = 0;
  }

 private:
  bool is_full(std::size_t bucket) const {
    return std::ranges::all_of(plan_[bucket], [&](std::size_t index) { return ready_[index]; });
  }
  void start(std::size_t bucket) {
    float* to = messages_[bucket].data();
    for (const std::size_t index : plan_[bucket]) {
      to = std::ranges::copy(gradients_[index].values, to).out;
    }
    works_[bucket] = group_.all_reduce(messages_[bucket], ReduceOp::avg, compute_);
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<Tensor> messages_;
  std::vector<bool> ready_;
  std::vector<std::unique_ptr<Work>> works_;
  std::size_t next_{0};  // the next bucket to start
};

inline std::unique_ptr<GradientSync> overlap_reference(ProcessGroup& group,
                                                       std::vector<Gradient> gradients,
                                                       BucketPlan plan, const Stream& compute) {
  return std::make_unique<BucketedSync>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace dist::exercise
