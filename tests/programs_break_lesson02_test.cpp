// Lesson 2's experiments: each shows the symptom and the numbers that it promises.
#include "tests/support/broken_run.hpp"

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

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

TEST_CASE("barrier-myth: the root leaves a broadcast early, but not a barrier", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kBroadcast, "barrier-myth");
    REQUIRE(rows.size() == 4);
    CHECK(rows[0]["call"] == "broadcast (tree)");
    CHECK(rows[0]["root_left_ms"] < 0);
    CHECK(rows[2]["call"] == "token, once around");
    CHECK(rows[2]["root_left_ms"] >= 0);
    CHECK((rows[2]["first_left_ms"] < 0) == (ranks > 2));
    CHECK(rows[3]["call"] == "MPI_Barrier");
    CHECK(rows[3]["first_left_ms"] >= 0);
  }
}

TEST_CASE("root-only: the other ranks' layers hold the previous tensor", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kBroadcast, "root-only");
    REQUIRE(rows.size() == 2 * static_cast<std::size_t>(ranks));
    for (const json& row : rows) {
      CHECK(row["layers_hold"] == (row["rank"] == 0 ? json({1, 2, 3}) : json({0, 1, 2})));
    }
  }
}

TEST_CASE("root-disagree: the error appears only in the next call, which is correct",
          "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kBroadcast, "root-disagree");
    REQUIRE(rows.size() == static_cast<std::size_t>(ranks));
    for (const json& row : rows) {
      const int rank = row["rank"];
      const bool is_last = rank + 1 == ranks;
      CHECK(row["weights_of_rank"] == (is_last ? rank : 0));
      CHECK(row["error_at_bias"].is_null() == !is_last);
    }
    const auto error = rows.back()["error_at_bias"].get<std::string>();
    INFO(error);
    CHECK(error.find("runcate") != std::string::npos);  // MPI libraries word this differently
  }
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

TEST_CASE("no-broadcast: the spread stays constant; the losses fall, but not far enough",
          "[break]") {
  std::set<double> spreads;
  for (const int ranks : {2, 4, 7}) {
    for (const std::string seed : {"0", "1"}) {
      const std::vector<json> rows =
          symptoms(ranks, kBroadcast, "no-broadcast", "--seed " + seed);
      REQUIRE(rows.size() == static_cast<std::size_t>(ranks));
      for (const json& row : rows) {
        const double before = row["spread_before"];
        CHECK(before > 0.1);
        CHECK(std::abs(row["spread_after"].get<double>() - before) < 1e-5);
        CHECK(row["update_difference"] == 0);
        CHECK(row["last_loss"] < row["first_loss"]);
        // With the broadcast, the same run finds the true model.
        CHECK(row["last_loss_with_broadcast"] < 1e-6);
        CHECK(row["spread_with_broadcast"] == 0);
      }
      spreads.insert(rows[0]["spread_before"].get<double>());
    }
  }
  CHECK(spreads.size() >= 4);  // the seed has an effect
}
