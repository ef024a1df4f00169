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
  remembers_steps,
  nameless,
  names_all,
  never_the_last,
  allocates,
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
    ready_[index] = ever_ready_[index] = true;
    if constexpr (kChange == ready_order) {
      for (std::size_t b = 0; b < plan_.size(); ++b) {
        if (is_full(b) && std::ranges::count(plan_[b], index) > 0) start(b);
      }
    } else if constexpr (kChange == one_at_a_time) {
      if (next_ < plan_.size() && is_full(next_)) start(next_++);
    } else if constexpr (kChange == never_the_last) {
      while (next_ + 1 < plan_.size() && is_full(next_)) start(next_++);
    } else if constexpr (kChange != in_finalize) {
      if constexpr (kChange == as_they_come) copy_in(index);
      while (next_ < plan_.size() && is_full(next_)) start(next_++);
    }
  }

  void finalize() override {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (ready_[i] || kChange == ignores_missing) continue;
      if (kChange == remembers_steps && ever_ready_[i]) continue;
      std::string names = kChange == nameless ? "a gradient" : gradients_[i].name;
      for (const Gradient& gradient : gradients_) {
        if (kChange == names_all) names += " " + gradient.name;
      }
      throw Error(names + " never became ready");
    }
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      if constexpr (kChange == in_finalize) start(b);
      if constexpr (kChange == waits_for_last) {
        if (b == 0) works_.back()->wait(compute_);
      } else if constexpr (kChange != waits_at_once && kChange != reads_early) {
        const bool needed = kChange != ignores_missing && kChange != never_the_last;
        if (works_[b] || needed) works_[b]->wait(compute_);
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
    if constexpr (kChange == allocates) {
      const Tensor old = messages_[bucket];
      messages_[bucket] = group_.allocate({old.numel()});
      std::ranges::copy(old.span(), messages_[bucket].data());
    }
    works_[bucket] = group_.all_reduce(messages_[bucket], ReduceOp::avg, compute_);
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<Tensor> messages_;
  std::vector<bool> ready_ = std::vector<bool>(gradients_.size());
  std::vector<bool> ever_ready_ = ready_;
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
constexpr auto overlap_as_they_come = changed_sync<SyncChange::as_they_come>;

// == per-gradient | one-per-bucket | one message for all of them, not one for each
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
constexpr auto overlap_first_ready = changed_sync<SyncChange::first_ready>;

// == in-finalize | in-backward | start the all-reduce in mark_ready
// Starts all buckets after backward, so there is no overlap.
constexpr auto overlap_in_finalize = changed_sync<SyncChange::in_finalize>;

// == waits-at-once | goes-on | return to backward
// Waits for each bucket right after starting it, so there is no overlap.
constexpr auto overlap_waits_at_once = changed_sync<SyncChange::waits_at_once>;

// == ready-order | in-order | a full bucket waits for the buckets before it
// Starts whichever bucket is full, so ranks mix layers.
constexpr auto overlap_ready_order = changed_sync<SyncChange::ready_order>;

// == one-at-a-time | catches-up | as long as the next bucket is full, start it
// Starts only one bucket per call, so the last ones never start.
constexpr auto overlap_one_at_a_time = changed_sync<SyncChange::one_at_a_time>;

// == waits-for-last | waited-for | in finalize call wait(compute) for each
// Waits only for the last bucket.
constexpr auto overlap_waits_for_last = changed_sync<SyncChange::waits_for_last>;

// == reads-early | values | back into the gradients after the wait
// Copies back before it waits.
constexpr auto overlap_reads_early = changed_sync<SyncChange::reads_early>;

// == fills-late | values | before its all-reduce starts
// Writes into a message whose all-reduce has already started.
constexpr auto overlap_fills_late = changed_sync<SyncChange::fills_late>;

// == one-step | next-step | finalize must reset everything
// Does not reset its state, so the second step sends no message.
constexpr auto overlap_one_step = changed_sync<SyncChange::one_step>;

// == ignores-missing | missing | the model would train without them
// Waits for the buckets that started, and does not report the missing gradient.
constexpr auto overlap_ignores_missing = changed_sync<SyncChange::ignores_missing>;

// == nameless | missing | throw an Error that names this gradient
// Throws an Error without the gradient's name.
constexpr auto overlap_nameless = changed_sync<SyncChange::nameless>;

// == remembers-steps | missing | was marked in this step
// Does not forget which gradients were ready in an earlier step, so that one that is missing
// keeps its old average.
constexpr auto overlap_remembers_steps = changed_sync<SyncChange::remembers_steps>;

// == names-all | missing | and no other
// Throws an Error with the names of all gradients.
constexpr auto overlap_names_all = changed_sync<SyncChange::names_all>;

// == never-the-last | one-per-bucket | look at it after that gradient, too
// Does not start the last bucket.
constexpr auto overlap_never_the_last = changed_sync<SyncChange::never_the_last>;

// == allocates | allocated-once | call group.allocate in the constructor
// Allocates a message in every step.
constexpr auto overlap_allocates = changed_sync<SyncChange::allocates>;

// == one-for-all | two-objects | a static or global variable belongs to all objects
// A static variable says which object is meant, which works for one at a time.
class OneForAll : public BucketedSync {
 public:
  OneForAll(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
            const Stream& compute)
      : BucketedSync(group, std::move(gradients), std::move(plan), compute) {
    newest = this;
  }
  void mark_ready(std::size_t index) override { newest->BucketedSync::mark_ready(index); }

 private:
  inline static OneForAll* newest = nullptr;
};
inline AnySync overlap_one_for_all(ProcessGroup& group, std::vector<Gradient> gradients,
                                   BucketPlan plan, const Stream& compute) {
  return std::make_unique<OneForAll>(group, gradients, plan, compute);
}

// == shared-message | real-group | the message belongs to the group
// Sends all buckets from one message, so a bucket overwrites the one that is being sent.
constexpr auto overlap_shared_message = changed_sync<SyncChange::shared_message>;

}  // namespace dist::exercise
