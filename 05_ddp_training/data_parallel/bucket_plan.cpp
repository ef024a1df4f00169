#include "05_ddp_training/data_parallel/bucket_plan.hpp"

#include <utility>

namespace dist {

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const std::size_t> bytes,
                                                   std::size_t first_cap, std::size_t cap) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> open;
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

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const Parameter> parameters,
                                                   BucketCaps caps) {
  const std::size_t last = parameters.size() - 1;
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i <= last; ++i) {
    bytes.push_back(parameters[last - i].value.size_bytes());
  }
  auto buckets = plan_buckets(bytes, caps.first_bytes, caps.bytes);
  for (auto& bucket : buckets) {
    for (std::size_t& index : bucket) index = last - index;
  }
  return buckets;
}

}  // namespace dist
