// Lesson 4's experiments: every promised symptom appears, with the promised numbers. An
// experiment ends with status 0 only if it saw its symptom.
#include "tests/support/broken_run.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace dist::test;

namespace {

const std::string kSampler = "distributed_sampler";

}  // namespace

TEST_CASE("distributed_sampler lists its experiments", "[break]") {
  check_list(kSampler, {"no-sampler", "no-set-epoch", "rank-seed", "uneven"});
  check_refused("broken/" + kSampler, "nothing", "NAME: 'nothing' is not one of");
  check_refused("broken/" + kSampler, "uneven", "NAME: uneven needs 2 ranks", 1);
}

TEST_CASE("the sampler's experiments show what the README says", "[break]") {
  for (const auto& [name, line] : std::vector<std::pair<std::string, std::string>>{
           {"no-sampler",
            "no sampler                32          8          1               16"},
           {"no-set-epoch", "different orders: 1 without set_epoch, 5 with it"},
           {"rank-seed", "seed + rank    400   159       108    133            33.2 %"}}) {
    check_text(4, kSampler, name, line);
  }
}

TEST_CASE("the sampler's symptoms appear on other numbers of ranks, too", "[break]") {
  for (const int ranks : {2, 3, 7}) {
    for (const char* name : {"no-sampler", "no-set-epoch", "rank-seed"}) {
      check_text(ranks, kSampler, name);
    }
  }
}

TEST_CASE("uneven hangs in the last step of the rank that has an extra batch", "[break]") {
  CHECK(hang(2, kSampler, "uneven")
            .says("rank 0 is in all_reduce #4 (the gradients of step 4); rank 1 never entered "
                  "it, last seen in #3"));
  const CommandResult four = hang(4, kSampler, "uneven");
  CHECK(four.says("rank 0 has 4 batches, and the others have 3"));
  CHECK(
      four.says("rank 0 is in all_reduce #4 (the gradients of step 4); ranks 1, 2, 3 never "
                "entered it, last seen in #3"));
}
