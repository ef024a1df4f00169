// Fault 9: a gradient is not finite.
#include "tests/faults/faults.hpp"

#include <cstddef>
#include <string>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("a run whose gradients are never finite ends and says why", "[fault09]") {
  for (const std::string device : {"cpu", "auto"}) {
    const CommandResult result = mpirun(
        3, "ddp_training", "--optimizer sgd --lr 1e6 --max-steps 50 --json --device " + device);
    CAPTURE(device);
    CHECK(result.status == 1);
    CHECK(result.err.find("10 steps in a row had to be skipped") != std::string::npos);
    std::size_t skipped = 0;
    for (const json& row : result.rows()) skipped += row.contains("skipped");
    // On a CPU, the host learns of the tenth skipped step during the eleventh; on a GPU, it
    // reads eight steps at a time.
    CHECK(skipped >= 10);
    CHECK(skipped <= (device == "cpu" ? 11 : 26));
  }
  figure(9, "all ranks skipped 10 steps, and then the run ended with status 1");
}
