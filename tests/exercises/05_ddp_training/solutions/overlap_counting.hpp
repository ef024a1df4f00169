// Right, but written differently: counts the gradients that each bucket is missing, and copies
// them into the message as they become ready.
#pragma once

#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "common/check.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dist::exercise {

class Counting : public GradientSync {
 public:
  Counting(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
           const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute),
        bucket_of_(gradients_.size()),
        place_(gradients_.size()),
        works_(plan_.size()) {
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      std::size_t count = 0;
      for (const std::size_t index : plan_[b]) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
      std::size_t begin = 0;
      for (const std::size_t index : plan_[b]) {
        bucket_of_[index] = b;
        place_[index] = messages_[b].span().subspan(begin, gradients_[index].values.size());
        begin += gradients_[index].values.size();
      }
    }
    Counting::reset();
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    std::ranges::copy(gradients_[index].values, place_[index].begin());
    --missing_[bucket_of_[index]];
    for (; next_ < plan_.size() && missing_[next_] == 0; ++next_) {
      works_[next_] = group_.all_reduce(messages_[next_], ReduceOp::avg, compute_);
    }
  }
  void finalize() override {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      if (!ready_[i]) throw Error(gradients_[i].name + " never became ready");
    }
    for (const auto& work : works_) work->wait(compute_);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      std::ranges::copy(place_[i], gradients_[i].values.begin());
    }
    reset();
  }

 private:
  void reset() {
    ready_.assign(gradients_.size(), false);
    missing_.clear();
    for (const auto& bucket : plan_) missing_.push_back(bucket.size());
    next_ = 0;
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::span<float>> place_;  // each gradient's place in its message
  std::vector<bool> ready_;
  std::vector<Tensor> messages_;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<std::size_t> missing_;  // per bucket
  std::size_t next_ = 0;
};

inline std::unique_ptr<GradientSync> overlap(ProcessGroup& group,
                                             std::vector<Gradient> gradients, BucketPlan plan,
                                             const Stream& compute) {
  return std::make_unique<Counting>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace dist::exercise
