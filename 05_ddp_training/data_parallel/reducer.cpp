// Look at: start_full_buckets, whose loop starts the buckets in order.
//
// With ReduceOp::avg, 03's finish (reduce_op.hpp) multiplies the sum by 1 / ranks; with
// sum, as for NCCL, the loss has been divided already (CrossEntropyLoss).
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
                 ProcessGroup& group, ReduceOp op, Collective::Kind collective,
                 std::span<const Tensor> slots)
    : parameters_(parameters),
      plans_(std::move(plans)),
      group_(group),
      op_(op),
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

void Reducer::start_full_buckets(const Stream& compute) {
  const auto is_ready = [this](std::size_t parameter) { return ready_[parameter]; };
  for (std::size_t next = sent_.works.size(); next < plans_.size(); ++next) {
    const BucketPlan& bucket = plans_[next];
    if (!std::ranges::all_of(bucket.parameters, is_ready)) return;
    sent_.full.push_back(compute.record_event());
    sent_.works.push_back(group_.start({.kind = collective_,
                                        .tensor = messages_[next],
                                        .op = op_,
                                        .name = bucket.name,
                                        .numbers = std::exchange(numbers_, {})},
                                       compute));
  }
}

void Reducer::wait(std::size_t buckets, const Stream& compute) {
  for (; waited_ < buckets; ++waited_) sent_.works[waited_]->wait(compute);
}

Communication Reducer::finalize(const Stream& compute) {
  const auto never = std::ranges::find(ready_, false);
  if (never != ready_.end()) {
    throw Error("the gradient of " +
                parameters_[static_cast<std::size_t>(never - ready_.begin())].name +
                " never became ready: its bucket and all later ones were never sent");
  }
  wait(plans_.size(), compute);
  sent_.overlaps = group_.overlaps();
  sent_.averaged = compute.record_event();
  ready_.assign(ready_.size(), false);
  waited_ = 0;
  return std::exchange(sent_, {});
}

}  // namespace dist
