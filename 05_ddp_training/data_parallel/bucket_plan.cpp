#include "05_ddp_training/data_parallel/bucket_plan.hpp"

#include "02_broadcast/chunks.hpp"
#include "common/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace dist {

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const std::size_t> bytes,
                                                   std::size_t first_cap, std::size_t cap) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> open;  // [8] the bucket that is not yet full
  std::size_t size = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    open.push_back(i);
    size += bytes[i];
    if (size < (buckets.empty() ? first_cap : cap)) continue;
    buckets.push_back(std::exchange(open, {}));
    size = 0;
  }
  if (!open.empty()) buckets.push_back(std::move(open));
  return buckets;
}

std::vector<BucketPlan> plan_buckets(std::span<const Parameter> parameters, BucketCaps caps) {
  const std::size_t last = parameters.size() - 1;
  std::vector<std::size_t> bytes;
  for (const Parameter& p : std::views::reverse(parameters)) {
    bytes.push_back(p.value.size_bytes());
  }
  const bool aligned = !parameters.front().value.device().is_cpu();
  constexpr std::size_t kAligned = 256 / sizeof(float);
  std::vector<BucketPlan> plans;
  for (const auto& bucket : plan_buckets(bytes, caps.first_bytes, caps.bytes)) {
    BucketPlan plan;
    for (const std::size_t i : bucket) {
      plan.names.push_back(parameters[last - i].name);
      plan.parameters.push_back(last - i);
      const std::size_t count = parameters[last - i].value.numel();
      const std::size_t multiple = aligned && count >= kAligned ? kAligned : 1;
      plan.begins.push_back((plan.count + multiple - 1) / multiple * multiple);
      plan.count = plan.begins.back() + count;
    }
    plan.name = fmt::format("bucket {}: {}", plans.size(), join(plan.names, ", "));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<GradientNorm::Range> norm_ranges(std::span<const Parameter> parameters,
                                             std::span<const BucketPlan> plans, int ranks) {
  std::vector<GradientNorm::Range> all;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const BucketPlan& bucket : plans) {
      const ChunkRange chunk = chunk_range(bucket.count, ranks, rank);
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        // What lies both in the chunk and in the parameter's numbers, from begin to end.
        const std::size_t begin = bucket.begins[i];
        const std::size_t end = begin + parameters[bucket.parameters[i]].value.numel();
        const std::size_t first = std::clamp(chunk.begin, begin, end);
        const std::size_t last = std::clamp(chunk.begin + chunk.count, begin, end);
        if (first == last) continue;
        all.push_back({bucket.parameters[i], first - begin, last - first, rank});
      }
    }
  }
  return all;
}

}  // namespace dist
