// Fault 8: the number of samples is not divisible by the number of ranks or by the batch size.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

TEST_CASE("accuracy counts every sample exactly once, on any number of ranks", "[fault08]") {
  const TemporaryFolder folder;
  const std::string file = folder / "x";
  nlohmann::json accuracy =
      trained(mpirun(1, "ddp_training", "--json --max-steps 5 --checkpoint " + file))
          .final["test_accuracy"];
  for (int ranks = 2; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    const CommandResult tested =
        mpirun(ranks, "ddp_training", "--json --evaluate --init " + file);
    REQUIRE(tested.status == 0);
    CHECK(tested.rows().back()["test_accuracy"] == accuracy);
  }
  // Training reports what it does with the remainder.
  CHECK(mpirun(3, "ddp_training", "--max-steps 1").says("2667 per rank (padded)"));
  CHECK(mpirun(3, "ddp_training", "--max-steps 1 --drop-last").says("2666 per rank,"));
  figure(8, "accuracy " + accuracy.dump() + " on 1 to 8 ranks, of 2000 samples");
}
