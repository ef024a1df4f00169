// Lesson 4's experiments: every promised symptom appears, with the promised numbers.
#include "tests/support/broken_run.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::string kSampler = "distributed_sampler";

bool near(const json& value, double expected) {
  return std::abs(value.get<double>() - expected) < 1e-8;
}

}  // namespace

TEST_CASE("distributed_sampler lists its experiments", "[break]") {
  check_list(kSampler, {"no-sampler", "no-set-epoch", "rank-seed", "pad-eval", "uneven",
                        "mean-of-means"});
  check_refused("broken/" + kSampler, "nothing", "NAME: 'nothing' is not one of");
  check_refused("broken/" + kSampler, "uneven", "NAME: uneven needs 2 ranks", 1);
}

TEST_CASE("the sampler's experiments explain in half a screen what they show", "[break]") {
  for (const char* name :
       {"no-sampler", "no-set-epoch", "rank-seed", "pad-eval", "mean-of-means"}) {
    check_text(4, kSampler, name);
  }
}

TEST_CASE("no-sampler takes the same samples on all ranks", "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<json> rows = symptoms(ranks, kSampler, "no-sampler");
    REQUIRE(rows.size() == 2);
    const json &without = rows[0], &sampled = rows[1];
    for (const json& row : rows) CHECK(row["taken_in_step"] == 8 * ranks);
    CHECK(without["unique_in_step"] == 8);
    CHECK(without["different_gradients"] == 1);
    CHECK(without["steps"] == 4 * ranks);
    CHECK(without["taken"] == 32 * ranks * ranks);
    CHECK(sampled["unique_in_step"] == 8 * ranks);
    CHECK(sampled["different_gradients"] == ranks);
    CHECK(sampled["steps"] == 4);
    CHECK(sampled["taken"] == 32 * ranks);
  }
}

TEST_CASE("no-set-epoch uses the same order in all epochs", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kSampler, "no-set-epoch");
    CHECK(row["orders_without"] == 1);
    CHECK(row["orders_with"] == row["epochs"]);
  }
}

TEST_CASE("rank-seed repeats samples and leaves others out", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kSampler, "rank-seed");
    REQUIRE(rows.size() == 2);
    const json &own = rows[0], &common = rows[1];
    const double never = own["never"].get<double>() / (100 * ranks);
    CHECK(std::abs(never - std::pow(1 - 1.0 / ranks, ranks)) < 0.05);
    CHECK(own["again"].get<int>() > 0);
    for (const json& row : rows) {
      CHECK(row["taken"] == 100 * ranks);
      CHECK(row["once"].get<int>() + row["again"].get<int>() + row["never"].get<int>() ==
            100 * ranks);
    }
    CHECK(common["once"] == 100 * ranks);
    if (ranks == 4) {  // the README's numbers
      CHECK(own["again"] == 108);
      CHECK(own["never"] == 133);
    }
  }
}

TEST_CASE("pad-eval counts samples twice", "[break]") {
  const std::vector<json> four = symptoms(4, kSampler, "pad-eval");
  REQUIRE(four.size() == 2);
  for (const json& row : four) {
    CHECK(row["samples"] == 10);
    CHECK(row["counted"] == 12);
    CHECK(near(row["true"], 0.8));
    CHECK(row["exact"] == row["true"]);
  }
  CHECK(near(four[0]["padded"], 10.0 / 12));
  CHECK(near(four[1]["padded"], 8.0 / 12));
  for (const int ranks : {2, 3, 7}) {
    for (const json& row : symptoms(ranks, kSampler, "pad-eval")) {
      CHECK(row["counted"].get<int>() % ranks == 0);
      CHECK(row["counted"] > row["samples"]);
      CHECK(row["padded"] != row["true"]);
      CHECK(row["exact"] == row["true"]);
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

TEST_CASE("mean-of-means is wrong if the counts differ; the weighted mean is always right",
          "[break]") {
  for (const int ranks : {2, 3, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kSampler, "mean-of-means");
    REQUIRE(rows.size() == 3);
    const double others = ranks - 1;
    CHECK(near(rows[0]["error"], 0));
    CHECK(near(rows[1]["weighted"], 3.0 * ranks / (3 * ranks + 1)));
    CHECK(near(rows[1]["mean_of_means"], (0.75 + others) / ranks));
    CHECK(near(rows[2]["weighted"], 100 * others / (100 * others + 1)));
    CHECK(near(rows[2]["mean_of_means"], others / ranks));
  }
}
