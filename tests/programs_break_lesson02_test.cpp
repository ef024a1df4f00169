// Lesson 2's experiments: each shows the symptom and the numbers that it promises.
#include "tests/support/broken_run.hpp"

#include <string>
#include <vector>

using namespace dist::test;

namespace {

const std::string kBroadcast = "broadcast";

}  // namespace

TEST_CASE("broadcast lists its experiments and refuses to run on too few ranks", "[break]") {
  const std::vector<std::string> names{"barrier-myth", "root-only", "root-disagree",
                                       "no-broadcast"};
  check_list(kBroadcast, names);
  for (const std::string& name : names) {
    check_refused("broken/broadcast", name, "NAME: " + name + " needs 2 ranks", 1);
  }
}

TEST_CASE("each experiment of lesson 2 shows its symptom, in the words of its file",
          "[break]") {
  for (const int ranks : {2, 3, 4}) {
    check_text(ranks, kBroadcast, "barrier-myth", "enters 200 ms late");
    check_text(ranks, kBroadcast, "root-only", "rank 1: layers 1, 2, 3 hold tensors 0, 1, 2");
    // MPI libraries word this error differently.
    check_text(ranks, kBroadcast, "root-disagree", "runcate");
    check_text(ranks, kBroadcast, "no-broadcast",
               "updates differed by at most 0 in the 100 steps");
  }
  const CommandResult seeded = broken(4, kBroadcast, "no-broadcast", "--seed 1");
  CHECK(seeded.status == 0);
  CHECK(seeded.out != broken(4, kBroadcast, "no-broadcast").out);
}

TEST_CASE("root-disagree with --strict: the two roots wait for each other", "[break]") {
  const CommandResult result =
      mpirun(4, "broken/broadcast", "root-disagree --strict --timeout 2", kNoGrace);
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(
      result.says("hang: rank 0 in MPI_Send to 3 (32 B, tag 0); rank 3 in MPI_Send to 0 "
                  "(32 B, tag 0): cycle 0 -> 3 -> 0"));
}
