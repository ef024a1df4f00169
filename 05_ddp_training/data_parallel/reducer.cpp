// Look at: start_full_buckets, whose loop starts the buckets in order.
#include "05_ddp_training/data_parallel/reducer.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <utility>

namespace dist {

Reducer::Reducer(std::span<Parameter> parameters, ProcessGroup& group, BucketCaps caps,
                 ReduceOp op)
    : parameters_(parameters),
      group_(group),
      op_(op),
      bucket_of_(parameters.size()),
      ready_(parameters.size(), false) {
  for (const BucketPlan& plan : plan_buckets(parameters, caps)) {
    // Free these gradients before allocating their bucket, so that a rank never holds two
    // copies.
    for (const std::size_t index : plan.parameters) parameters[index].grad = Tensor();
    const Tensor message = group.allocate({plan.count});
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      Parameter& parameter = parameters[plan.parameters[i]];
      parameter.grad =
          message.narrow(plan.begins[i], parameter.value.numel()).view(parameter.value.shape());
      bucket_of_[plan.parameters[i]] = buckets_.size();
    }
    buckets_.push_back({plan, message, plan.parameters.size()});
  }
}

void Reducer::mark_ready(std::size_t index, const Stream& compute) {
  if (ready_[index]) {
    throw Error("the gradient of " + parameters_[index].name + " was marked ready twice");
  }
  ready_[index] = true;
  --buckets_[bucket_of_[index]].missing;
  start_full_buckets(compute);
}

void Reducer::start_full_buckets(const Stream& compute) {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    const Bucket& bucket = buckets_[next_];
    if (next_ == 0) step_.emplace();
    step_->full.push_back(compute.record_event());
    step_->works.push_back(group_.all_reduce(bucket.message, op_, compute, bucket.plan.name,
                                             std::exchange(numbers_, {})));
  }
}

void Reducer::finalize(const Stream& compute) {
  const auto never = std::ranges::find(ready_, false);
  if (never != ready_.end()) {
    throw Error("the gradient of " +
                parameters_[static_cast<std::size_t>(never - ready_.begin())].name +
                " never became ready: its bucket and all later ones were never sent");
  }
  step_->overlaps = group_.overlaps();
  step_->computed = compute.record_event();
  for (const auto& work : step_->works) work->wait(compute);
  step_->averaged = compute.record_event();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.plan.parameters.size();
  ready_.assign(ready_.size(), false);
  next_ = 0;
}

std::vector<std::vector<std::string>> Reducer::names() const {
  std::vector<std::vector<std::string>> all;
  for (const Bucket& bucket : buckets_) {
    auto& names = all.emplace_back();
    for (const std::size_t index : bucket.plan.parameters)
      names.push_back(parameters_[index].name);
  }
  return all;
}

}  // namespace dist
