// Fault 12: one rank is slow.
#include "tests/faults/faults.hpp"

#include <fmt/core.h>

#include <string>

using namespace dist::test;

TEST_CASE("the rank that the others wait for is named", "[fault12]") {
  // Each step takes longer than the short intervals in which the last rank is allowed to run,
  // even if a busy machine lengthens these. On a GPU, the host would write no metrics in time.
  const TemporaryFolder folder;
  const std::string flags = "--json --device cpu --batch-size 512 --max-steps 15 --metrics ";
  const CommandResult slow = interrupted(
      2, flags + (folder / "cut.jsonl"), folder / "cut.jsonl", 1,
      "while kill -STOP $last; do sleep 0.1; kill -CONT $last; sleep 0.002; done 2>/dev/null");
  INFO(slow.err);
  REQUIRE(slow.status == 0);
  CHECK(slow.rows().back()["slowest_rank"] == 1);
  const double ratio = slow.rows().back()["slowest_ratio"].get<double>();
  CHECK(ratio >= 1.75);
  figure(12,
         fmt::format("a rank stopped for 100 of every 102 ms is named, {:.1f} times as slow",
                     ratio));
}
