#include "05_ddp_training/sharding/sharded_data_parallel.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "common/watch.hpp"

#include <algorithm>
#include <utility>

namespace dist {
namespace {

Tensor chunk_of(const Tensor& bucket, const ChunkRange& chunk) {
  return bucket.narrow(chunk.begin, chunk.count);
}

}  // namespace

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
  const Slots gradients = divides(ShardLevel::gradients) ? make_slots() : Slots();
  const Slots values = divides(ShardLevel::parameters) ? make_slots() : Slots();
  for (std::size_t b = 0; b < shard.buckets().size(); ++b) {
    Shard::Bucket& plan = shard.buckets()[b];
    const Shape whole{plan.count};
    const Shape mine{plan.mine.count};
    const auto slot_or_own = [&](bool divided, const Slots& slots) {
      return divided ? slots[b % kSlots].narrow(0, plan.count) : group.allocate(whole);
    };
    Bucket bucket;
    bucket.gradients = slot_or_own(divides(ShardLevel::gradients), gradients);
    bucket.my_gradients = divides(ShardLevel::gradients)
                              ? Tensor(mine, stream.device())
                              : chunk_of(bucket.gradients, plan.mine);
    bucket.values = slot_or_own(divides(ShardLevel::parameters), values);
    bucket.missing = plan.parameters.size();
    for (const std::size_t index : plan.parameters) {
      Parameter& parameter = all[index];
      const Shape& shape = parameter.value.shape();
      const std::size_t begin = shard.begin_of(index);
      const std::size_t count = parameter.value.numel();
      const Tensor value = bucket.values.narrow(begin, count).view(shape);
      copy(stream, value, parameter.value);
      parameter.value = value;
      parameter.grad = bucket.gradients.narrow(begin, count).view(shape);
      bucket_of_[index] = b;
    }
    bucket.my_values = chunk_of(bucket.values, plan.mine);
    if (divides(ShardLevel::parameters)) {  // the slot's next bucket overwrites the values
      const Tensor kept(mine, stream.device());
      copy(stream, kept, bucket.my_values);
      bucket.my_values = kept;
    } else {
      plan.values = bucket.values;
    }
    for (const std::size_t index : plan.parameters) {
      Parameter& part = shard.parts()[index];
      const std::size_t count = part.value.numel();
      if (count == 0) continue;
      const std::size_t first =
          shard.begin_of(index) + shard.range(index, group.comm().rank()).begin;
      const std::size_t at = first - plan.mine.begin;
      part.value = bucket.my_values.narrow(at, count);
      part.grad = bucket.my_gradients.narrow(at, count);
    }
    stream.synchronize();  // the copies read memory that is free from here on
    buckets_.push_back(std::move(bucket));
  }
  if (divides(ShardLevel::gradients)) {
    module.before_layer([this](std::size_t layer) { before_layer(layer); });
  }
}

ShardedDataParallel::Slots ShardedDataParallel::make_slots() {
  Slots slots;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    std::size_t largest = 0;
    for (std::size_t b = slot; b < shard_.buckets().size(); b += kSlots) {
      largest = std::max(largest, shard_.buckets()[b].count);
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
  const Shard::Bucket& plan = shard_.buckets()[bucket];
  Bucket& b = buckets_[bucket];
  copy(stream_, chunk_of(b.values, plan.mine), b.my_values);
  b.gathered = group_.all_gather(b.values, stream_, plan.name);
}

void ShardedDataParallel::gradient_is_ready(std::size_t parameter) {
  const std::size_t b = bucket_of_[parameter];
  Bucket& bucket = buckets_[b];
  if (--bucket.missing > 0) return;
  step_.full.push_back(stream_.record_event());
  bucket.reduced = group_.reduce_scatter(bucket.gradients, op_, stream_,
                                         shard_.buckets()[b].name, std::exchange(numbers_, {}));
  step_.works.push_back(bucket.reduced);
}

void ShardedDataParallel::finish_gradients(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  const auto work = std::exchange(b.reduced, nullptr);
  if (!work) return;
  work->wait(stream_);
  b.missing = shard_.buckets()[bucket].parameters.size();
  if (!divides(ShardLevel::gradients)) return;
  const Tensor reduced = chunk_of(b.gradients, shard_.buckets()[bucket].mine);
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
  step_ = {};
  step_.overlaps = group_.overlaps();
  if (place.ends_step()) numbers_ = loss.numbers();  // they travel once
  backward_ = accumulate;
  {
    const CallScope scope("backward");
    // Divided gradients are added up after the reduce-scatter, in my_gradients.
    module_.backward(loss.grad(), stream_, divided ? Accumulate::no : accumulate,
                     [this](std::size_t parameter) { gradient_is_ready(parameter); });
  }
  step_.computed = stream_.record_event();
  const CallScope scope("wait for reduce-scatters");
  for (std::size_t b = 0; b < buckets_.size(); ++b) finish_gradients(b);
  step_.averaged = stream_.record_event();
  backward_.reset();
  if (!place.ends_step()) step_ = {};
}

std::optional<Communication> ShardedDataParallel::take_communication() {
  if (step_.works.empty()) return std::nullopt;
  return std::exchange(step_, {});
}

}  // namespace dist
