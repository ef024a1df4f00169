#include "05_ddp_training/sharding/sharded_data_parallel.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "common/watch.hpp"

#include <utility>

namespace dist {

// A layer's weight and bias are in one bucket or in two neighbouring ones.
void ShardedDataParallel::before_layer(std::size_t layer) {
  const std::size_t low = bucket_of_[2 * layer + 1];  // the bias comes first
  const std::size_t high = bucket_of_[2 * layer];
  // Gradients up to bucket `high` are next, so those in the same slots must go.
  if (in_backward_ && high >= kSlots) keep_gradients(high - kSlots + 1);
  if (!divides(ShardLevel::parameters)) return;
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
  const ChunkRange mine = my_chunk(bucket);
  Bucket& b = buckets_[bucket];
  copy(stream_, b.values.narrow(mine.begin, mine.count), b.my_values);
  b.gathered = group_.all_gather(b.values, stream_, plans_[bucket].name);
}

// Waits for the first `buckets` buckets, and empties their slots.
void ShardedDataParallel::keep_gradients(std::size_t buckets) {
  for (; kept_ < buckets; ++kept_) {
    reducer_.wait(kept_ + 1, stream_);
    if (!divides(ShardLevel::gradients)) continue;
    const ChunkRange mine = my_chunk(kept_);
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
  const bool divided = divides(ShardLevel::gradients);
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
