// Solutions to lesson 5's exercise overlap, except edited copies of others (see solutions.txt).
#pragma once

#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "common/check.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dist::exercise {

// == overlap/reference
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

// == overlap/counting
// Right, but written differently: counts the gradients that each bucket is missing, and copies
// them into the message as they become ready.
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

inline std::unique_ptr<GradientSync> overlap_counting(ProcessGroup& group,
                                                      std::vector<Gradient> gradients,
                                                      BucketPlan plan, const Stream& compute) {
  return std::make_unique<Counting>(group, std::move(gradients), std::move(plan), compute);
}

}  // namespace dist::exercise
