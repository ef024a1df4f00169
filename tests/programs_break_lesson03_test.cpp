// Lesson 3's experiments. Each judges itself: it ends with status 0 only if its numbers show
// the symptom.
#include "tests/support/broken_run.hpp"

#include <string>
#include <vector>

using namespace dist::test;

namespace {

const std::string kAllReduce = "all_reduce";

}  // namespace

TEST_CASE("all_reduce lists its experiments", "[break]") {
  check_list(kAllReduce, {"forget-divide", "chunk-off-by-one", "full-tensor-ring", "swap-order",
                          "one-skips", "association"});
  check_refused("broken/" + kAllReduce, "nothing", "NAME: 'nothing' is not one of");
  check_refused("broken/" + kAllReduce, "full-tensor-ring",
                "NAME: full-tensor-ring needs 3 ranks", 2);
  check_refused("broken/" + kAllReduce, "swap-order", "NAME: swap-order needs 2 ranks", 1);
}

TEST_CASE("each experiment of lesson 3 shows its symptom, in the words of its file",
          "[break]") {
  struct Case {
    std::string name;
    std::vector<int> ranks;
    std::string line;
  };
  const std::string who = "rank 3 called the all-reduce with a different ";
  for (const auto& [name, counts, line] : std::vector<Case>{
           {"forget-divide", {2, 3, 7}, "times as long as the average's"},
           {"forget-divide", {4}, "on 4 ranks the sum's step is 4 times as long"},
           {"chunk-off-by-one", {2, 3, 7}, "tracer numbers  FAIL: "},
           {"chunk-off-by-one", {4}, "ones            PASS: 0 wrong of 64 on all ranks"},
           {"chunk-off-by-one", {4}, "element 0 is 6004 and should be 6000"},
           {"full-tensor-ring", {3, 7}, "bytes FAIL: "},
           {"full-tensor-ring", {4}, "bytes FAIL: 49152 = (N-1) S, but 2 (N-1)/N S = 24576"},
           {"swap-order", {2}, "the sum of the weights is 51000, and must be 1000"},
           {"swap-order", {4}, who + "tensor than rank 0: 16 bytes and 16"},
           {"swap-order", {4}, who + "number of elements than rank 0: 16 bytes and 32"},
           {"association", {3, 4, 7}, "naive 1, ring 1, recursive doubling 1"}}) {
    for (const int ranks : counts) check_text(ranks, kAllReduce, name, line);
  }
}

TEST_CASE("one-skips hangs, and the report names the rank that is missing", "[break]") {
  CHECK(hang(2, kAllReduce, "one-skips")
            .says("rank 0 is in all_reduce #7 (gradients); rank 1 never entered it, last seen "
                  "in #6"));
  const CommandResult four = hang(4, kAllReduce, "one-skips");
  CHECK(
      four.says("ranks 0, 1, 3 are in all_reduce #7 (gradients); rank 2 never entered it, "
                "last seen in #6"));
  CHECK(four.says("rank 2 leaves out all_reduce #7"));
}
