// How a model and its optimizer's state are divided among the ranks, and put together again.
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/send_recv.hpp"
#include "05_ddp_training/sharding/sharded_data_parallel.hpp"
#include "05_ddp_training/sharding/sharded_optimizer.hpp"

#include <algorithm>
#include <utility>

namespace dist {

ShardedDataParallel::ShardedDataParallel(Module& module, ProcessGroup& group,
                                         const Stream& stream, ShardLevel level,
                                         BucketCaps caps)
    : DataParallel(module, group, stream),
      mlp_(level > ShardLevel::optimizer ? dynamic_cast<Mlp*>(&module) : nullptr),
      stream_(stream),
      level_(level),
      plans_(plan_buckets(module.parameters(), caps)),
      ranges_(norm_ranges(module.parameters(), plans_, group.comm().size())),
      reducer_(module.parameters(), plans_, group, Collective::Kind::reduce_scatter,
               make_slots(ShardLevel::gradients)),
      bucket_of_(module.parameters().size()) {
  if (divides(ShardLevel::gradients) && mlp_ == nullptr) {
    throw Error(
        "--shard gradients and parameters need a model that announces its layers, an Mlp");
  }
  for (const Parameter& parameter : module.parameters()) {
    parts_.push_back({parameter.name, {}, {}, parameter.decays});
  }
  const std::vector<Tensor> slots = make_slots(ShardLevel::parameters);
  for (std::size_t b = 0; b < plans_.size(); ++b) {
    const BucketPlan& plan = plans_[b];
    const ChunkRange mine = my_chunk(b);
    const Tensor values = allocate_bucket(group, plan, b, slots);
    // A rank's own chunk of a divided bucket must survive the slot's next bucket.
    const auto own = [&](ShardLevel of, const Tensor& whole) {
      return divides(of) ? Tensor({mine.count}, stream.device())
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
      const ChunkRange part = my_part(p);
      if (part.count == 0) continue;
      const std::size_t at = plan.begins[i] + part.begin - mine.begin;  // in my chunk
      parts_[p].value = my_values.narrow(at, part.count);
      parts_[p].grad = my_gradients.narrow(at, part.count);
    }
    if (slots.empty()) {
      gathered_.push_back(values);
    } else {
      copy(stream, my_values, values.narrow(mine.begin, mine.count));
    }
    stream.synchronize();  // the copies read memory that is free from here on
  }
  if (divides(ShardLevel::gradients)) {
    mlp_->before_layer([this](std::size_t layer) { before_layer(layer); });
  }
}

std::vector<Tensor> ShardedDataParallel::make_slots(ShardLevel level) {
  std::vector<Tensor> slots;
  for (std::size_t s = 0; divides(level) && s < std::min(kSlots, plans_.size()); ++s) {
    std::size_t largest = 0;
    for (std::size_t b = s; b < plans_.size(); b += kSlots) {
      largest = std::max(largest, plans_[b].count);
    }
    slot_bytes_ += slots.emplace_back(group_.allocate({largest})).size_bytes();
  }
  return slots;
}

ChunkRange ShardedDataParallel::my_part(std::size_t parameter) const {
  const auto range = std::ranges::find_if(ranges_, [&](const GradientNorm::Range& r) {
    return r.tensor == parameter && r.rank == group_.comm().rank();
  });
  return range == ranges_.end() ? ChunkRange{0, 0} : ChunkRange{range->begin, range->count};
}

std::unique_ptr<Optimizer> ShardedDataParallel::plain_optimizer(const OptimizerOptions& options,
                                                                const Stream& stream) {
  return std::make_unique<ShardedOptimizer>(options, parts_, plans_, gathered_, group_, stream);
}

GradientNorm ShardedDataParallel::norm(const Stream& stream) const {
  std::vector<GradientNorm::Range> mine;
  for (const auto& [parameter, begin, count, rank] : ranges_) {
    if (rank == group_.comm().rank()) mine.push_back({parameter, 0, count, rank});
  }
  return {std::move(mine), group_.comm().size(), /*is_exchanged=*/true, stream};
}

DataParallel::Kept ShardedDataParallel::kept() const {
  const auto of = [this](ShardLevel level) -> std::span<const Parameter> {
    if (divides(level)) return parts_;
    return module_.parameters();
  };
  return {of(ShardLevel::parameters), of(ShardLevel::gradients), slot_bytes_};
}

Tensor ShardedDataParallel::gather(std::size_t parameter, const Tensor& mine,
                                   const Stream& stream) const {
  const Communicator& comm = group_.comm();
  if (comm.rank() != 0) {
    if (mine.numel() > 0) {
      read_on_host(stream, mine,
                   [&](std::span<const float> numbers) { send<float>(comm, numbers, 0); });
    }
    return {};
  }
  const Tensor whole(module_.parameters()[parameter].value.shape(), Device{});
  for (const GradientNorm::Range& range : ranges_) {
    if (range.tensor != parameter) continue;
    const std::span<float> to = whole.span().subspan(range.begin, range.count);
    if (range.rank > 0) {
      recv<float>(comm, to, range.rank);
    } else {
      read_on_host(stream, mine, [&](std::span<const float> numbers) {
        std::ranges::copy(numbers, to.begin());
      });
    }
  }
  return whole;
}

void ShardedDataParallel::keep_part(std::size_t parameter, const Tensor& whole,
                                    const Tensor& mine, const Stream& stream) const {
  if (mine.numel() == 0) return;
  copy(stream, mine, whole.narrow(my_part(parameter).begin, mine.numel()));
  stream.synchronize();
}

}  // namespace dist
