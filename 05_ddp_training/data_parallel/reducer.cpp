// Look at: [9], whose loop starts the buckets in order, and [10], which waits for them.
#include "05_ddp_training/data_parallel/reducer.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <utility>

namespace dist {

Tensor allocate_bucket(ProcessGroup& group, const BucketPlan& plan, std::size_t index,
                       std::span<const Tensor> slots) {
  if (slots.empty()) return group.allocate({plan.count});
  return slots[index % slots.size()].narrow(0, plan.count);
}

Reducer::Reducer(std::span<Parameter> parameters, std::vector<BucketPlan> plans,
                 ProcessGroup& group, Collective::Kind collective,
                 std::span<const Tensor> slots)
    : parameters_(parameters),
      plans_(std::move(plans)),
      group_(group),
      collective_(collective),
      ready_(parameters.size(), false) {
  // Free the gradients before allocating the buckets, so that a rank never holds two copies.
  for (Parameter& parameter : parameters) parameter.grad = Tensor();
  for (std::size_t b = 0; b < plans_.size(); ++b) {
    messages_.push_back(allocate_bucket(group, plans_[b], b, slots));
    for (std::size_t i = 0; i < plans_[b].parameters.size(); ++i) {
      Parameter& parameter = parameters[plans_[b].parameters[i]];
      parameter.grad = plans_[b].view(messages_[b], i, parameter.value.shape());
    }
  }
}

void Reducer::mark_ready(std::size_t index, const Stream& compute) {
  if (ready_[index]) {
    throw Error("the gradient of " + parameters_[index].name + " was marked ready twice");
  }
  ready_[index] = true;
  start_full_buckets(compute);
}

// [9] Starts the buckets that are full, in order, and leaves the rest to later calls.
void Reducer::start_full_buckets(const Stream& compute) {
  const auto is_ready = [this](std::size_t parameter) { return ready_[parameter]; };
  for (std::size_t next = works_.size(); next < plans_.size(); ++next) {
    const BucketPlan& bucket = plans_[next];
    if (!std::ranges::all_of(bucket.parameters, is_ready)) return;
    works_.push_back(group_.start({.kind = collective_,
                                   .tensor = messages_[next],
                                   .op = ReduceOp::avg,
                                   .name = bucket.name,
                                   .numbers = std::exchange(numbers_, {})},
                                  compute));
  }
}

void Reducer::wait(std::size_t buckets, const Stream& compute) {
  for (; waited_ < buckets; ++waited_) works_[waited_]->wait(compute);
}

std::vector<std::unique_ptr<Work>> Reducer::finalize(const Stream& compute) {
  const auto never = std::ranges::find(ready_, false);
  if (never != ready_.end()) {
    throw Error("the gradient of " +
                parameters_[static_cast<std::size_t>(never - ready_.begin())].name +
                " never became ready: its bucket and all later ones were never sent");
  }
  wait(plans_.size(), compute);  // [10] before the optimizer
  ready_.assign(ready_.size(), false);
  waited_ = 0;
  return std::exchange(works_, {});
}

}  // namespace dist
