// Known solutions of the exercise `overlap`: the reference, and others, right and wrong.
#pragma once

#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "common/check.hpp"
#include "common/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
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

// == helpers
using AnySync = std::unique_ptr<GradientSync>;

enum class SyncChange {
  as_they_come,
  first_ready,
  in_finalize,
  waits_at_once,
  ready_order,
  one_at_a_time,
  waits_for_last,
  reads_early,
  fills_late,
  one_step,
  ignores_missing,
  nameless,
  shared_message,
};

// The reference with one change, which is explained above the function of the same name.
template <SyncChange kChange>
class ChangedSync : public GradientSync {
  using enum SyncChange;

 public:
  ChangedSync(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
              const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute) {
    for (const auto& bucket : plan_) {
      std::size_t count = 0;
      for (const std::size_t index : bucket) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
    }
    if constexpr (kChange == shared_message) {
      const Tensor longest = *std::ranges::max_element(messages_, {}, &Tensor::numel);
      for (Tensor& message : messages_) message = longest.narrow(0, message.numel());
    }
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    if constexpr (kChange == ready_order) {
      for (std::size_t b = 0; b < plan_.size(); ++b) {
        if (is_full(b) && std::ranges::count(plan_[b], index) > 0) start(b);
      }
    } else if constexpr (kChange == one_at_a_time) {
      if (next_ < plan_.size() && is_full(next_)) start(next_++);
    } else if constexpr (kChange != in_finalize) {
      if constexpr (kChange == as_they_come) copy_in(index);
      while (next_ < plan_.size() && is_full(next_)) start(next_++);
    }
  }

  void finalize() override {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (ready_[i] || kChange == ignores_missing) continue;
      throw Error(kChange == nameless ? "a gradient is missing"
                                      : gradients_[i].name + " never became ready");
    }
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      if constexpr (kChange == in_finalize) start(b);
      if constexpr (kChange == waits_for_last) {
        if (b == 0) works_.back()->wait(compute_);
      } else if constexpr (kChange != waits_at_once && kChange != reads_early) {
        if (works_[b] || kChange != ignores_missing) works_[b]->wait(compute_);
      }
      const float* from = messages_[b].data();
      for (const std::size_t index : plan_[b]) {
        const auto& values = gradients_[index].values;
        std::copy_n(from, values.size(), values.begin());
        from += values.size();
      }
    }
    if constexpr (kChange == reads_early) {
      for (const auto& work : works_) work->wait(compute_);
    }
    if constexpr (kChange == one_step) return;
    ready_.assign(ready_.size(), false);
    next_ = 0;
  }

 private:
  bool is_full(std::size_t bucket) const {
    const auto is_ready = [this](std::size_t index) { return ready_[index]; };
    if constexpr (kChange == first_ready) return std::ranges::any_of(plan_[bucket], is_ready);
    return std::ranges::all_of(plan_[bucket], is_ready);
  }
  void start(std::size_t bucket) {
    if constexpr (kChange == fills_late) send(bucket);
    if constexpr (kChange != as_they_come) {
      for (const std::size_t index : plan_[bucket]) copy_in(index);
    }
    if constexpr (kChange != fills_late) send(bucket);
    if constexpr (kChange == waits_at_once) works_[bucket]->wait(compute_);
  }
  // Copies a gradient to its place in its bucket's message.
  void copy_in(std::size_t index) {
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      float* to = messages_[b].data();
      for (const std::size_t i : plan_[b]) {
        if (i == index) std::ranges::copy(gradients_[i].values, to);
        to += gradients_[i].values.size();
      }
    }
  }
  void send(std::size_t bucket) {
    works_[bucket] = group_.all_reduce(messages_[bucket], ReduceOp::avg, compute_);
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<Tensor> messages_;
  std::vector<bool> ready_ = std::vector<bool>(gradients_.size());
  std::vector<std::unique_ptr<Work>> works_{plan_.size()};
  std::size_t next_{0};
};

template <SyncChange kChange>
AnySync changed_sync(ProcessGroup& group, const std::vector<Gradient>& gradients,
                     const BucketPlan& plan, const Stream& compute) {
  return std::make_unique<ChangedSync<kChange>>(group, gradients, plan, compute);
}

// == as-they-come | done
// Fills the message as gradients become ready. This is also right.
inline AnySync overlap_as_they_come(ProcessGroup& group, std::vector<Gradient> gradients,
                                    BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::as_they_come>(group, gradients, plan, compute);
}

// == per-gradient | one-per-bucket | a bucket's gradients share one message
// Makes one all-reduce per gradient.
inline AnySync overlap_per_gradient(ProcessGroup& group, std::vector<Gradient> gradients,
                                    BucketPlan plan, const Stream& compute) {
  BucketPlan single;
  for (const auto& bucket : plan) {
    for (const std::size_t index : bucket) single.push_back({index});
  }
  return overlap_reference(group, gradients, single, compute);
}

// == first-ready | complete | count for each bucket how many
// Starts a bucket when its first gradient is ready.
inline AnySync overlap_first_ready(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::first_ready>(group, gradients, plan, compute);
}

// == in-finalize | in-backward | start the all-reduce in mark_ready
// Starts all buckets after backward, so there is no overlap.
inline AnySync overlap_in_finalize(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::in_finalize>(group, gradients, plan, compute);
}

// == waits-at-once | goes-on | return to backward
// Waits for each bucket right after starting it, so there is no overlap.
inline AnySync overlap_waits_at_once(ProcessGroup& group, std::vector<Gradient> gradients,
                                     BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::waits_at_once>(group, gradients, plan, compute);
}

// == ready-order | in-order | a full bucket waits for the buckets before it
// Starts whichever bucket is full, so ranks mix layers.
inline AnySync overlap_ready_order(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::ready_order>(group, gradients, plan, compute);
}

// == one-at-a-time | catches-up | as long as the next bucket is full, start it
// Starts only one bucket per call, so the last ones never start.
inline AnySync overlap_one_at_a_time(ProcessGroup& group, std::vector<Gradient> gradients,
                                     BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::one_at_a_time>(group, gradients, plan, compute);
}

// == waits-for-last | waited-for | in finalize call wait(compute) for each
// Waits only for the last bucket.
inline AnySync overlap_waits_for_last(ProcessGroup& group, std::vector<Gradient> gradients,
                                      BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::waits_for_last>(group, gradients, plan, compute);
}

// == reads-early | values | back into the gradients after the wait
// Copies back before it waits.
inline AnySync overlap_reads_early(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::reads_early>(group, gradients, plan, compute);
}

// == fills-late | values | before its all-reduce starts
// Writes into a message whose all-reduce has already started.
inline AnySync overlap_fills_late(ProcessGroup& group, std::vector<Gradient> gradients,
                                  BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::fills_late>(group, gradients, plan, compute);
}

// == one-step | next-step | finalize must reset everything
// Does not reset its state, so the second step sends no message.
inline AnySync overlap_one_step(ProcessGroup& group, std::vector<Gradient> gradients,
                                BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::one_step>(group, gradients, plan, compute);
}

// == ignores-missing | missing | the model would train without them
// Waits for the buckets that started, and does not report the missing gradient.
inline AnySync overlap_ignores_missing(ProcessGroup& group, std::vector<Gradient> gradients,
                                       BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::ignores_missing>(group, gradients, plan, compute);
}

// == nameless | missing | throw an Error with the gradient's name
// Throws an Error without the gradient's name.
inline AnySync overlap_nameless(ProcessGroup& group, std::vector<Gradient> gradients,
                                BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::nameless>(group, gradients, plan, compute);
}

// == shared-message | real-group | the message belongs to the group
// Sends all buckets from one message, so a bucket overwrites the one that is being sent.
inline AnySync overlap_shared_message(ProcessGroup& group, std::vector<Gradient> gradients,
                                      BucketPlan plan, const Stream& compute) {
  return changed_sync<SyncChange::shared_message>(group, gradients, plan, compute);
}

}  // namespace dist::exercise
