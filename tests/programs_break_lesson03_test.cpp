// Lesson 3's experiments: every promised symptom appears, with the promised numbers.
#include "tests/support/broken_run.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::string kAllReduce = "all_reduce";

}  // namespace

TEST_CASE("all_reduce lists its experiments", "[break]") {
  check_list(kAllReduce, {"forget-divide", "chunk-off-by-one", "full-tensor-ring", "swap-order",
                          "one-skips", "association", "wrong-stream"});
  check_refused("broken/" + kAllReduce, "nothing", "NAME: 'nothing' is not one of");
  check_refused("broken/" + kAllReduce, "full-tensor-ring",
                "NAME: full-tensor-ring needs 3 ranks", 2);
  check_refused("broken/" + kAllReduce, "swap-order", "NAME: swap-order needs 2 ranks", 1);
}

TEST_CASE("all_reduce's experiments explain in half a screen what they show", "[break]") {
  for (const char* name : {"forget-divide", "full-tensor-ring", "swap-order", "association"}) {
    check_text(4, kAllReduce, name);
  }
  check_text(4, kAllReduce, "chunk-off-by-one",
             "ones            PASS: 0 wrong of 64 on all ranks");
}

TEST_CASE("forget-divide multiplies the learning rate by the number of ranks", "[break]") {
  for (const int ranks : {2, 3, 4, 7}) {
    const json row = symptom(ranks, kAllReduce, "forget-divide");
    CHECK(row["step_ratio"] == ranks);
    CHECK(std::abs(row["left_average"].get<double>() - std::pow(0.4, 10)) < 1e-9);
    const double left = std::pow(std::abs(1 - 0.6 * ranks), 10);
    CHECK(std::abs(row["left_sum"].get<double>() - left) <= 1e-8 * left + 1e-15);
    CHECK(row["left_average_at_n_times_the_rate"] == row["left_sum"]);
  }
}

TEST_CASE("chunk-off-by-one passes on ones and fails on tracer numbers", "[break]") {
  for (const int ranks : {2, 3, 4, 7}) {
    const json row = symptom(ranks, kAllReduce, "chunk-off-by-one");
    CHECK(row["wrong_ones"] == 0);
    CHECK(row["wrong_tracer_numbers"] == 4 * ranks * ranks);
    CHECK(row["element_0_right"] == 500 * ranks * (ranks - 1));
    CHECK(row["element_0"].get<double>() - row["element_0_right"].get<double>() == 4);
    CHECK(row["missing_in_chunk_0"] == json({1}));
  }
  const CommandResult text = broken(4, kAllReduce, "chunk-off-by-one");
  CHECK(
      text.says("tracer numbers  FAIL: 64 wrong of 64; element 0 is 6004 and should be 6000"));
  CHECK(text.says("chunk 0 lacks the share of rank 1"));
}

TEST_CASE("full-tensor-ring gives the right sum but sends too much", "[break]") {
  for (const int ranks : {3, 4, 7}) {
    const json row = symptom(ranks, kAllReduce, "full-tensor-ring");
    const int bytes = 4096 * ranks;
    CHECK(row["tensor_bytes"] == bytes);
    CHECK(row["values_right"] == true);
    CHECK(row["bytes_per_rank"] == (ranks - 1) * bytes);
    CHECK(row["bytes_per_rank_in_chunks"] == 2 * (ranks - 1) * bytes / ranks);
    CHECK(row["different_results"].get<int>() > 1);
    CHECK(row["different_results_in_chunks"] == 1);
  }
}

TEST_CASE("swap-order swaps tensors silently, but shared memory reports the swap", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kAllReduce, "swap-order");
    CHECK(row["silently_swapped"] == true);
    CHECK(row["sum_seen"].get<double>() == row["sum_right"].get<double>() + 50000);
    const std::string who =
        "rank " + std::to_string(ranks - 1) + " called the all-reduce with a different ";
    CHECK(row["same_size_registered"] == who + "tensor than rank 0: 16 bytes and 16");
    CHECK(row["different_size"] == who + "number of elements than rank 0: 16 bytes and 32");
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

TEST_CASE("association: results differ between algorithms, not between ranks", "[break]") {
  for (const int ranks : {3, 4, 7}) {
    const json row = symptom(ranks, kAllReduce, "association");
    CHECK(row["hashes"] == json({1, 1, 1}));
    const json& distances = row["distances"];
    REQUIRE(distances.size() == 3);
    CHECK(distances[0]["between"] == json({"naive", "ring"}));
    CHECK(distances[0]["different"].get<int>() > 400);
    CHECK(distances[0]["largest_ulp"].get<int>() > 1);
    CHECK(distances[0]["far"] < distances[0]["different"]);
    if (ranks == 3) CHECK(distances[1]["different"] == 0);
  }
}

TEST_CASE("wrong-stream reads stale values until it waits for the event", "[break][gpu]") {
  for (const int ranks : {2, 4}) {
    if (!can_run(ranks, kAllReduce, "wrong-stream")) return;
    const json row = symptom(ranks, kAllReduce, "wrong-stream");
    CHECK(row["without_event"] == json({0, 1, 2, 3}));
    const int sum = 500 * ranks * (ranks - 1);
    CHECK(row["after_event"] == json({sum, sum + ranks, sum + 2 * ranks, sum + 3 * ranks}));
  }
}
