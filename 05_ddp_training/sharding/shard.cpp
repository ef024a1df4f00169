#include "05_ddp_training/sharding/shard.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/send_recv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

namespace dist {
namespace {

// What lies in both ranges; it begins within `b`.
ChunkRange overlap(ChunkRange a, ChunkRange b) {
  const std::size_t end = b.begin + b.count;
  const std::size_t first = std::clamp(a.begin, b.begin, end);
  return {first, std::clamp(a.begin + a.count, b.begin, end) - first};
}

}  // namespace

Shard::Shard(ShardLevel level, Mlp& model, BucketCaps caps, const Communicator& comm)
    : level_(level), model_(model), comm_(comm), parameter_(model.parameters().size()) {
  const std::span<Parameter> all = model.parameters();
  for (const BucketPlan& plan : plan_buckets(all, caps)) {
    Bucket bucket{.name = fmt::format("bucket {}: ", buckets_.size()),
                  .parameters = plan.parameters,
                  .count = plan.count,
                  .first_part = parts_.size(),
                  .values = {}};
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      const std::size_t index = plan.parameters[i];
      bucket.name += (i == 0 ? "" : ", ") + all[index].name;
      parameter_[index] = {buckets_.size(), plan.begins[i]};
    }
    bucket.mine = chunk_range(bucket.count, comm.size(), comm.rank());
    buckets_.push_back(std::move(bucket));
    for (const std::size_t index : buckets_.back().parameters) {
      const ChunkRange mine = range(index, comm.rank());
      if (mine.count == 0) continue;
      const Tensor value = all[index].value.narrow(mine.begin, mine.count);
      places_.push_back({index, parameter_[index].begin + mine.begin});
      parts_.push_back({all[index].name, value, value});
    }
    buckets_.back().parts = parts_.size() - buckets_.back().first_part;
  }
}

ChunkRange Shard::range(std::size_t parameter, int rank) const {
  const auto [bucket, first] = parameter_[parameter];
  const ChunkRange chunk = chunk_range(buckets_[bucket].count, comm_.size(), rank);
  const ChunkRange part = overlap(chunk, {first, model_.parameters()[parameter].value.numel()});
  return {part.begin - first, part.count};
}

Tensor Shard::part_of(std::size_t parameter) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (places_[i].parameter == parameter) return parts_[i].value;
  }
  return {};
}

Tensor Shard::gather(std::size_t parameter, const Tensor& part, const Stream& stream) const {
  if (comm_.rank() != 0) {
    if (part.numel() > 0) {
      read_on_host(stream, part,
                   [&](std::span<const float> numbers) { send<float>(comm_, numbers, 0); });
    }
    return {};
  }
  const Tensor whole(model_.parameters()[parameter].value.shape(), Device{});
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

std::vector<GradientNorm::Range> Shard::norm_ranges() const {
  std::vector<GradientNorm::Range> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    all.push_back({i, 0, parts_[i].value.numel(), comm_.rank()});
  }
  return all;
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

void Shard::agree(const Tensor& flags, std::span<double> squares, const Stream& stream) {
  group_->all_reduce(flags, ReduceOp::max, stream, "finite gradients", squares)->wait(stream);
}

// A bucket travels while the next one is updated.
void Shard::update_and_pass_on(const Update& update, const Stream& stream) {
  std::vector<std::unique_ptr<Work>> works;
  for (const Bucket& bucket : buckets_) {
    update(bucket.first_part, bucket.parts);
    if (bucket.values.numel() == 0) continue;
    works.push_back(group_->all_gather(bucket.values, stream, bucket.name));
  }
  for (const auto& work : works) work->wait(stream);
}

}  // namespace dist
