// Fault 5: a rank is killed.
#include "tests/faults/faults.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

using namespace dist::test;

TEST_CASE("killing one rank ends the job on all ranks", "[fault05]") {
  const TemporaryFolder folder;
  double longest = 0;
  const int kills = times(2, 20);
  for (int i = 0; i < kills; ++i) {
    std::filesystem::remove(folder / "cut.jsonl");
    const CommandResult killed = interrupted(
        4, kRun + files(folder, "cut"), folder / "cut.jsonl", 10,
        "date +%s.%N >&2; kill -9 $last; wait $t; status=$?; for r in $ranks; do "
        "timeout 60 sh -c 'while grep -qs \"^State:.*[RSDT] \" /proc/'$r'/status; do "
        "sleep 0.01; done' || echo alive; done; date +%s.%N >&2; (exit $status)");
    INFO(killed.out << killed.err);
    CHECK(killed.status != 0);
    CHECK_FALSE(killed.says("alive"));
    const double begin = std::stod(killed.err);
    const double end = std::stod(killed.err.substr(killed.err.rfind("\n1") + 1));
    longest = std::max(longest, end - begin);
  }
  figure(5, fmt::format("{} kills, the job ended within {:.1f} s", kills, longest));
}
