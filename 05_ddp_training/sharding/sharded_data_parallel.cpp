#include "05_ddp_training/sharding/sharded_data_parallel.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/sharding/sharded_optimizer.hpp"
#include "common/watch.hpp"

#include <algorithm>
#include <utility>

namespace dist {

ShardedDataParallel::ShardedDataParallel(Mlp& module, ProcessGroup& group, const Stream& stream,
                                         ShardLevel level, BucketCaps caps)
    : DataParallel(module, group, stream),
      stream_(stream),
      shard_(level, module.parameters(), caps, group.comm()),
      reducer_(module.parameters(), shard_.plans(), group, Collective::Kind::reduce_scatter,
               make_slots(ShardLevel::gradients)),
      bucket_of_(module.parameters().size()) {
  const std::vector<Tensor> slots = make_slots(ShardLevel::parameters);
  for (std::size_t b = 0; b < shard_.plans().size(); ++b) {
    const BucketPlan& plan = shard_.plans()[b];
    const ChunkRange mine = shard_.chunk(b);
    const Tensor values = allocate_bucket(group, plan, b, slots);
    // A rank's own chunk of a divided bucket must survive the slot's next bucket.
    const auto own = [&](ShardLevel of, const Tensor& whole) {
      return shard_.divides(of) ? Tensor({mine.count}, stream.device())
                                : whole.narrow(mine.begin, mine.count);
    };
    const Tensor my_values = own(ShardLevel::parameters, values);
    const Tensor my_gradients = own(ShardLevel::gradients, reducer_.message(b));
    buckets_.push_back({values, my_values, my_gradients, nullptr});
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const std::size_t p = plan.parameters[i];
      bucket_of_[p] = b;
      Tensor& value = module.parameters()[p].value;
      const Tensor moved = plan.view(values, i, value.shape());
      copy(stream, moved, value);
      value = moved;
      const ChunkRange part = shard_.mine(p);
      if (part.count == 0) continue;
      const std::size_t at = plan.begins[i] + part.begin - mine.begin;  // in my chunk
      shard_.parts()[p].value = my_values.narrow(at, part.count);
      shard_.parts()[p].grad = my_gradients.narrow(at, part.count);
    }
    if (slots.empty()) {
      gathered_.push_back(values);
    } else {
      copy(stream, my_values, values.narrow(mine.begin, mine.count));
    }
    stream.synchronize();  // the copies read memory that is free from here on
  }
  if (shard_.divides(ShardLevel::gradients)) {
    module.before_layer([this](std::size_t layer) { before_layer(layer); });
  }
}

std::vector<Tensor> ShardedDataParallel::make_slots(ShardLevel level) {
  std::vector<Tensor> slots;
  const std::vector<BucketPlan>& plans = shard_.plans();
  for (std::size_t s = 0; shard_.divides(level) && s < std::min(kSlots, plans.size()); ++s) {
    std::size_t largest = 0;
    for (std::size_t b = s; b < plans.size(); b += kSlots) {
      largest = std::max(largest, plans[b].count);
    }
    slot_bytes_ += slots.emplace_back(group_.allocate({largest})).size_bytes();
  }
  return slots;
}

std::unique_ptr<Optimizer> ShardedDataParallel::make_optimizer(const OptimizerOptions& options,
                                                               const Stream& stream) {
  return std::make_unique<ShardedOptimizer>(options, shard_, gathered_, group_, stream);
}

DataParallel::Kept ShardedDataParallel::kept() const {
  const auto of = [this](ShardLevel level) -> std::span<const Parameter> {
    return shard_.divides(level) ? shard_.parts() : module_.parameters();
  };
  return {of(ShardLevel::parameters), of(ShardLevel::gradients), slot_bytes_};
}

// A layer's weight and bias are in one bucket or in two neighbouring ones.
void ShardedDataParallel::before_layer(std::size_t layer) {
  const std::size_t low = bucket_of_[2 * layer + 1];  // the bias comes first
  const std::size_t high = bucket_of_[2 * layer];
  // Gradients up to bucket `high` are next, so those in the same slots must go.
  if (in_backward_ && high >= kSlots) keep_gradients(high - kSlots + 1);
  if (!shard_.divides(ShardLevel::parameters)) return;
  const bool first = layer == (in_backward_ ? module_.parameters().size() / 2 - 1 : 0);
  if (first) resident_.fill(std::nullopt);  // an update may have changed them since
  for (std::size_t b = low; b <= high; ++b) fetch_values(b);
  // The next layers' values travel while this layer is computed.
  if (in_backward_ && high + 1 < buckets_.size()) fetch_values(high + 1);
  if (!in_backward_ && low > 0) fetch_values(low - 1);
  for (std::size_t b = low; b <= high; ++b) {
    if (const auto work = std::exchange(buckets_[b].gathered, nullptr)) work->wait(stream_);
  }
}

void ShardedDataParallel::fetch_values(std::size_t bucket) {
  std::optional<std::size_t>& resident = resident_[bucket % kSlots];
  if (resident == bucket) return;
  resident = bucket;
  const ChunkRange mine = shard_.chunk(bucket);
  Bucket& b = buckets_[bucket];
  copy(stream_, b.values.narrow(mine.begin, mine.count), b.my_values);
  b.gathered = group_.all_gather(b.values, stream_, shard_.plans()[bucket].name);
}

// Waits for the first `buckets` buckets, and empties their slots.
void ShardedDataParallel::keep_gradients(std::size_t buckets) {
  for (; kept_ < buckets; ++kept_) {
    reducer_.wait(kept_ + 1, stream_);
    if (!shard_.divides(ShardLevel::gradients)) continue;
    const ChunkRange mine = shard_.chunk(kept_);
    const Tensor reduced = reducer_.message(kept_).narrow(mine.begin, mine.count);
    const Tensor& sum = buckets_[kept_].my_gradients;
    if (accumulate_ == Accumulate::yes) {
      add_to(stream_, sum.numel(), reduced.data(), sum.data());
    } else {
      copy(stream_, sum, reduced);
    }
  }
}

void ShardedDataParallel::backward(const Tensor& grad_logits, const Batch::Place& place,
                                   const Stream& stream) {
  accumulate_ = place.part == 0 ? Accumulate::no : Accumulate::yes;
  const bool divided = shard_.divides(ShardLevel::gradients);
  // Without a place for whole gradients, each part of a step must send its own.
  if (!place.ends_step() && !divided) {
    return module_.backward(grad_logits, stream, accumulate_);
  }
  if (place.ends_step()) reducer_.carry(numbers_);
  in_backward_ = true;
  {
    const CallScope scope("backward");
    // Divided gradients are added up after the reduce-scatter, in my_gradients.
    module_.backward(grad_logits, stream_, divided ? Accumulate::no : accumulate_,
                     [&](std::size_t parameter) { reducer_.mark_ready(parameter, stream_); });
  }
  const CallScope scope("wait for reduce-scatters");
  keep_gradients(buckets_.size());
  works_ = reducer_.finalize(stream_);
  in_backward_ = false;
  kept_ = 0;
}

}  // namespace dist
