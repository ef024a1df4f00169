#include "05_ddp_training/sharding/shard.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/send_recv.hpp"

#include <algorithm>
#include <utility>

namespace dist {

Shard::Shard(ShardLevel level, std::span<Parameter> parameters, BucketCaps caps,
             const Communicator& comm)
    : level_(level),
      parameters_(parameters),
      comm_(comm),
      plans_(plan_buckets(parameters, caps)),
      ranges_(norm_ranges(parameters, plans_, comm.size())) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto [begin, count] = mine(p);
    const Tensor value = count > 0 ? parameters[p].value.narrow(begin, count) : Tensor();
    parts_.push_back({parameters[p].name, value, {}});
  }
}

ChunkRange Shard::mine(std::size_t parameter) const {
  const auto range = std::ranges::find_if(ranges_, [&](const GradientNorm::Range& r) {
    return r.tensor == parameter && r.rank == comm_.rank();
  });
  return range == ranges_.end() ? ChunkRange{0, 0} : ChunkRange{range->begin, range->count};
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
  for (const GradientNorm::Range& range : ranges_) {
    if (range.tensor != parameter) continue;
    const std::span<float> to = whole.span().subspan(range.begin, range.count);
    if (range.rank > 0) {
      recv<float>(comm_, to, range.rank);
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
  copy_bytes(stream, part.data(), whole.data() + mine(parameter).begin, part.size_bytes());
  stream.synchronize();
}

GradientNorm Shard::norm(const Stream& stream) const {
  std::vector<GradientNorm::Range> mine;
  for (const auto& [parameter, begin, count, rank] : ranges_) {
    if (rank == comm_.rank()) mine.push_back({parameter, 0, count, rank});
  }
  return {std::move(mine), comm_.size(), /*is_exchanged=*/true, stream};
}

}  // namespace dist
