// Fault 6: a rank is stopped, or computes for ever.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

TEST_CASE("a rank that is stopped is named, and the job ends", "[fault06]") {
  const TemporaryFolder folder;
  const CommandResult result = interrupted(4, kRun + "--timeout 2 " + files(folder, "cut"),
                                           folder / "cut.jsonl", 10, "kill -STOP $last");
  INFO(result.err);
  CHECK(result.status == 86);
  CHECK(result.says("hang: rank 3 is stopped (SIGSTOP)"));
  CHECK(result.says(" of all_reduce #"));
}

TEST_CASE("training that moves raises no alarm", "[fault06]") {
  const int steps = times(500, 10'000);
  const CommandResult result =
      mpirun(4, "ddp_training",
             "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 "
             "--timeout 5 --max-steps " +
                 std::to_string(steps));
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK_FALSE(result.says("hang:"));
  figure(6, std::to_string(steps) + " steps on 4 ranks: 0 false alarms");
}
