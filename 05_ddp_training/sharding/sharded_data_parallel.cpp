#include "05_ddp_training/sharding/sharded_data_parallel.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "common/watch.hpp"

#include <algorithm>
#include <utility>

namespace dist {

ShardedDataParallel::ShardedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                                         Shard& shard, ReduceOp op)
    : module_(module),
      group_(group),
      stream_(stream),
      shard_(shard),
      op_(op),
      bucket_of_(module.parameters().size()) {
  broadcast_parameters(module, group, stream);
  const std::span<Parameter> all = module.parameters();
  for (Parameter& parameter : all) parameter.grad = Tensor();  // before allocating others
  for (Parameter& part : shard.parts()) part.grad = Tensor();
  const Slots gradients = make_slots(ShardLevel::gradients);
  const Slots values = make_slots(ShardLevel::parameters);
  for (std::size_t b = 0; b < shard.buckets().size(); ++b) {
    Shard::Bucket& shared = shard.buckets()[b];
    const BucketPlan& plan = shared.plan;
    const auto whole = [&](ShardLevel level, const Slots& slots) {
      return divides(level) ? slots[b % kSlots].narrow(0, plan.count)
                            : group.allocate({plan.count});
    };
    // A rank's own chunk of a divided bucket must survive the slot's next bucket.
    const auto own = [&](ShardLevel level, const Tensor& bucket) {
      return divides(level) ? Tensor({shared.mine.count}, stream.device())
                            : shared.chunk_of(bucket);
    };
    Bucket& bucket = buckets_.emplace_back();
    bucket.gradients = whole(ShardLevel::gradients, gradients);
    bucket.my_gradients = own(ShardLevel::gradients, bucket.gradients);
    bucket.values = whole(ShardLevel::parameters, values);
    bucket.my_values = own(ShardLevel::parameters, bucket.values);
    bucket.missing = plan.parameters.size();
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const std::size_t p = plan.parameters[i];
      auto& [name, value, grad] = all[p];
      const Tensor moved = plan.view(bucket.values, i, value.shape());
      copy(stream, moved, value);
      value = moved;
      grad = plan.view(bucket.gradients, i, value.shape());
      bucket_of_[p] = b;
      const ChunkRange part = shard.mine(p);
      if (part.count == 0) continue;
      const std::size_t at = plan.begins[i] + part.begin - shared.mine.begin;  // in my chunk
      shard.parts()[p].value = bucket.my_values.narrow(at, part.count);
      shard.parts()[p].grad = bucket.my_gradients.narrow(at, part.count);
    }
    if (divides(ShardLevel::parameters)) {
      copy(stream, bucket.my_values, shared.chunk_of(bucket.values));
    } else {
      shared.values = bucket.values;
    }
    stream.synchronize();  // the copies read memory that is free from here on
  }
  if (divides(ShardLevel::gradients)) {
    module.before_layer([this](std::size_t layer) { before_layer(layer); });
  }
}

ShardedDataParallel::Slots ShardedDataParallel::make_slots(ShardLevel level) {
  Slots slots;
  if (!divides(level)) return slots;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    std::size_t largest = 0;
    for (std::size_t b = slot; b < shard_.buckets().size(); b += kSlots) {
      largest = std::max(largest, shard_.buckets()[b].plan.count);
    }
    if (largest > 0) slots[slot] = group_.allocate({largest});
    shard_.add_slot_bytes(slots[slot].size_bytes());
  }
  return slots;
}

Tensor ShardedDataParallel::forward(const Tensor& input, const Stream& stream) {
  const CallScope scope("forward");
  return module_.forward(input, stream);
}

// A layer's weight and bias are in one bucket or in two neighbouring ones.
void ShardedDataParallel::before_layer(std::size_t layer) {
  const std::size_t low = bucket_of_[2 * layer + 1];  // the bias; backward begins with it
  const std::size_t high = bucket_of_[2 * layer];
  if (backward_) {
    for (std::size_t b = low; b <= high; ++b) {
      if (b >= kSlots) finish_gradients(b - kSlots);  // it had the same slot
    }
  }
  if (!divides(ShardLevel::parameters)) return;
  const bool first = layer == (backward_ ? module_.parameters().size() / 2 - 1 : 0);
  if (first) resident_.fill(std::nullopt);  // an update may have changed them since
  for (std::size_t b = low; b <= high; ++b) fetch_values(b);
  // The next layers' values travel while this layer is computed.
  if (backward_ && high + 1 < buckets_.size()) fetch_values(high + 1);
  if (!backward_ && low > 0) fetch_values(low - 1);
  for (std::size_t b = low; b <= high; ++b) {
    if (const auto work = std::exchange(buckets_[b].gathered, nullptr)) work->wait(stream_);
  }
}

void ShardedDataParallel::fetch_values(std::size_t bucket) {
  std::optional<std::size_t>& resident = resident_[bucket % kSlots];
  if (resident == bucket) return;
  resident = bucket;
  const Shard::Bucket& shared = shard_.buckets()[bucket];
  Bucket& b = buckets_[bucket];
  copy(stream_, shared.chunk_of(b.values), b.my_values);
  b.gathered = group_.all_gather(b.values, stream_, shared.plan.name);
}

void ShardedDataParallel::gradient_is_ready(std::size_t parameter) {
  const std::size_t b = bucket_of_[parameter];
  Bucket& bucket = buckets_[b];
  if (--bucket.missing > 0) return;
  step_->full.push_back(stream_.record_event());
  bucket.reduced =
      group_.reduce_scatter(bucket.gradients, op_, stream_, shard_.buckets()[b].plan.name,
                            std::exchange(numbers_, {}));
  step_->works.push_back(bucket.reduced);
}

void ShardedDataParallel::finish_gradients(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  const auto work = std::exchange(b.reduced, nullptr);
  if (!work) return;
  work->wait(stream_);
  b.missing = shard_.buckets()[bucket].plan.parameters.size();
  if (!divides(ShardLevel::gradients)) return;
  const Tensor reduced = shard_.buckets()[bucket].chunk_of(b.gradients);
  if (backward_ == Accumulate::yes) {
    add_to(stream_, reduced.numel(), reduced.data(), b.my_gradients.data());
  } else {
    copy(stream_, b.my_gradients, reduced);
  }
}

void ShardedDataParallel::backward(const CrossEntropyLoss& loss, const Stream& stream) {
  const Batch::Place& place = loss.place();
  const Accumulate accumulate = place.part == 0 ? Accumulate::no : Accumulate::yes;
  const bool divided = divides(ShardLevel::gradients);
  // Without a place for whole gradients, each part of a step must send its own.
  if (!place.ends_step() && !divided) {
    return module_.backward(loss.grad(), stream, accumulate);
  }
  step_.emplace().overlaps = group_.overlaps();
  if (place.ends_step()) numbers_ = loss.numbers();  // they travel once
  backward_ = accumulate;
  {
    const CallScope scope("backward");
    // Divided gradients are added up after the reduce-scatter, in my_gradients.
    module_.backward(loss.grad(), stream_, divided ? Accumulate::no : accumulate,
                     [this](std::size_t parameter) { gradient_is_ready(parameter); });
  }
  step_->computed = stream_.record_event();
  const CallScope scope("wait for reduce-scatters");
  for (std::size_t b = 0; b < buckets_.size(); ++b) finish_gradients(b);
  step_->averaged = stream_.record_event();
  backward_.reset();
  if (!place.ends_step()) step_.reset();
}

}  // namespace dist
