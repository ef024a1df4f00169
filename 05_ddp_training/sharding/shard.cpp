#include "05_ddp_training/sharding/shard.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/send_recv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dist {
namespace {

// What lies in both ranges; it begins within `b`.
ChunkRange overlap(ChunkRange a, ChunkRange b) {
  const std::size_t end = b.begin + b.count;
  const std::size_t first = std::clamp(a.begin, b.begin, end);
  return {first, std::clamp(a.begin + a.count, b.begin, end) - first};
}

}  // namespace

Shard::Shard(ShardLevel level, std::span<Parameter> parameters, BucketCaps caps,
             const Communicator& comm)
    : level_(level), parameters_(parameters), comm_(comm), places_(parameters.size()) {
  for (const BucketPlan& plan : plan_buckets(parameters, caps)) {
    Bucket bucket{.name = fmt::format("bucket {}: ", buckets_.size()),
                  .parameters = plan.parameters,
                  .count = plan.count,
                  .mine = chunk_range(plan.count, comm.size(), comm.rank())};
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const std::size_t index = plan.parameters[i];
      bucket.name += (i == 0 ? "" : ", ") + parameters[index].name;
      places_[index] = {buckets_.size(), plan.begins[i]};
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ChunkRange mine = range(p, comm.rank());
    const Tensor value =
        mine.count > 0 ? parameters[p].value.narrow(mine.begin, mine.count) : Tensor();
    parts_.push_back({parameters[p].name, value, value});
  }
}

ChunkRange Shard::range(std::size_t parameter, int rank) const {
  const auto [bucket, first] = places_[parameter];
  const ChunkRange chunk = chunk_range(buckets_[bucket].count, comm_.size(), rank);
  const ChunkRange part = overlap(chunk, {first, parameters_[parameter].value.numel()});
  return {part.begin - first, part.count};
}

Tensor Shard::gather(std::size_t parameter, const Tensor& part, const Stream& stream) const {
  if (comm_.rank() != 0) {
    if (part.numel() > 0) {
      read_on_host(stream, part,
                   [&](std::span<const float> numbers) { send<float>(comm_, numbers, 0); });
    }
    return {};
  }
  const Tensor whole(parameters_[parameter].value.shape(), Device{});
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const ChunkRange theirs = range(parameter, rank);
    if (theirs.count == 0) continue;
    const std::span<float> to = window(whole.span(), theirs);
    if (rank > 0) {
      recv<float>(comm_, to, rank);
    } else {
      read_on_host(stream, part, [&](std::span<const float> numbers) {
        std::ranges::copy(numbers, to.begin());
      });
    }
  }
  return whole;
}

void Shard::keep_part(std::size_t parameter, const Tensor& whole, const Tensor& part,
                      const Stream& stream) const {
  if (part.numel() == 0) return;
  const ChunkRange mine = range(parameter, comm_.rank());
  copy_bytes(stream, part.data(), whole.data() + mine.begin, part.size_bytes());
  stream.synchronize();
}

GradientNorm Shard::norm(const Stream& stream) const {
  std::vector<GradientNorm::Range> mine;
  for (const Bucket& bucket : buckets_) {
    for (const std::size_t p : bucket.parameters) {
      const std::size_t count = parts_[p].value.numel();
      if (count > 0) mine.push_back({p, 0, count, comm_.rank()});
    }
  }
  return {std::move(mine), comm_.size(), /*is_exchanged=*/true, stream};
}

std::vector<GradientNorm::Range> norm_ranges(std::span<const Parameter> parameters,
                                             BucketCaps caps, int ranks) {
  std::vector<GradientNorm::Range> all;
  const auto plan = plan_buckets(parameters, caps);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const BucketPlan& bucket : plan) {
      const ChunkRange chunk = chunk_range(bucket.count, ranks, rank);
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        const std::size_t p = bucket.parameters[i];
        const std::size_t first = bucket.begins[i];
        const ChunkRange part = overlap(chunk, {first, parameters[p].value.numel()});
        if (part.count > 0) all.push_back({p, part.begin - first, part.count, rank});
      }
    }
  }
  return all;
}

}  // namespace dist
