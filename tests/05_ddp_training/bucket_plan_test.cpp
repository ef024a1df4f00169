// Which gradients travel together: PyTorch's buckets.
#include "05_ddp_training/data_parallel/bucket_plan.hpp"

#include "tests/support/golden.hpp"
#include "tests/support/mpi_test.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace dist;
using namespace dist::test;

using Buckets = std::vector<std::vector<std::size_t>>;

TEST_CASE("the buckets match PyTorch's", "[one process]") {
  const nlohmann::json cases = golden("ddp.json").at("buckets");
  CHECK(cases.size() >= 6);
  constexpr std::size_t kMiB = 1 << 20;
  for (const nlohmann::json& example : cases) {
    std::vector<std::size_t> bytes;
    for (const std::size_t numel : example.at("numel")) bytes.push_back(4 * numel);
    const std::size_t cap = example.at("bucket_cap_mb").get<std::size_t>() * kMiB;
    CHECK(plan_buckets(bytes, kMiB, cap) ==
          example.at("registration_order_limits").get<Buckets>());
    // From the second step on, PyTorch uses the order in which gradients became ready.
    std::reverse(bytes.begin(), bytes.end());
    Buckets reversed = plan_buckets(bytes, kMiB, cap);
    for (auto& bucket : reversed) {
      for (std::size_t& index : bucket) index = bytes.size() - 1 - index;
    }
    CHECK(reversed == example.at("rebuilt").get<Buckets>());
  }
  CHECK(plan_buckets({}, 10, 10).empty());
  const std::vector<std::size_t> sizes{4, 4, 4};
  CHECK(plan_buckets(sizes, 0, 0) == Buckets{{0}, {1}, {2}});
}
