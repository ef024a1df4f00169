// Lesson 1's experiments: each shows the symptom and the numbers that it promises.
#include "tests/support/broken_run.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::string kSendRecv = "send_recv";

}  // namespace

TEST_CASE("send_recv lists its experiments and refuses those that it cannot run", "[break]") {
  const std::vector<std::string> names{"shared-variable", "head-to-head", "wrong-tag",
                                       "truncate",        "wrong-type",   "reuse-buffer",
                                       "print-order",     "no-group"};
  check_list(kSendRecv, names);
  for (const std::string& name : names) {
    check_refused("broken/send_recv", name, "NAME: " + name + " needs 2 ranks", 1);
  }
  check_refused("broken/send_recv", "nonsense", "NAME: 'nonsense' is not one of list, ");
}

TEST_CASE("shared-variable: rank 0's 42 stays on rank 0", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, kSendRecv, "shared-variable");
    REQUIRE(rows.size() == static_cast<std::size_t>(ranks));
    for (const json& row : rows) CHECK(row["value"] == (row["rank"] == 0 ? 42 : 0));
  }
}

TEST_CASE("head-to-head: works at the eager limit and deadlocks one number above it",
          "[break]") {
  const json limit =
      mpirun(2, "send_recv", "--act eager --json").rows().at(0)["eager_limit_bytes"];
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, kSendRecv, "head-to-head", "--timeout 2 --json");
    INFO(result.out << result.err);
    CHECK(result.status == 86);
    const std::vector<json> rows = result.rows();
    REQUIRE(rows.size() == 1);
    CHECK(rows[0]["eager_limit_bytes"] == limit);
    const auto right_at = rows[0]["right_at_bytes"].get<std::size_t>();
    const auto hangs_at = rows[0]["hangs_at_bytes"].get<std::size_t>();
    CHECK(right_at == limit.get<std::size_t>() / 4 * 4);
    CHECK(hangs_at == right_at + 4);
    CHECK(result.says("hang: rank 0 in MPI_Send to 1 ("));
    CHECK(result.says("cycle 0 -> 1 -> 0"));
  }
}

TEST_CASE("head-to-head with --strict hangs at 4 bytes", "[break]") {
  const CommandResult result = broken(2, kSendRecv, "head-to-head", "--strict --timeout 2");
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.says("no MPI_Send of any size returns before its receive is called"));
  CHECK(
      result.says("hang: rank 0 in MPI_Send to 1 (4 B, tag 0); rank 1 in MPI_Send to 0 "
                  "(4 B, tag 0): cycle 0 -> 1 -> 0"));
}

TEST_CASE("wrong-tag: the report names the tag that was expected and the tag that was sent",
          "[break]") {
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, kSendRecv, "wrong-tag", "--timeout 2");
    INFO(result.out << result.err);
    CHECK(result.status == 86);
    CHECK(result.says(
        "sent tag 8, then 7; received tag 7, then 8: each receive got its own message"));
    CHECK(result.says("hang: rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8\n"));
  }
}

TEST_CASE("truncate: MPI rejects a message that is too long; only recv rejects a short one",
          "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kSendRecv, "truncate");
    CHECK(row["truncated"] == true);
    CHECK(row["behind_is_untouched"] == true);
    CHECK(row["short_is_an_error"] == false);
    CHECK(row["short_count"] == 3);
    CHECK(row["short_memory"] == json({1000, 1001, 1002, -1}));
    CHECK(row["recv_says"] == "received 3 elements from rank 0, expected 4");
  }
}

TEST_CASE("wrong-type: the bits of a float are read as an int", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kSendRecv, "wrong-type");
    CHECK(row["sent"] == json({1000, 1001, 1002, 1003}));
    CHECK(row["as_ints"][0] == 0x447a0000);  // 1000 in binary32
    CHECK(row["as_doubles"].size() == 2);
    CHECK(row["as_doubles"][0] > 1e21);
  }
}

TEST_CASE("reuse-buffer: above the eager limit the receiver gets the later value", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, kSendRecv, "reuse-buffer");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["bytes"] == 16);
    CHECK(rows[1]["of_version_2"] > 0);
    for (const json& row : rows) {
      const auto count = row["bytes"].get<std::int64_t>() / 4;
      CHECK(row["of_version_1"].get<std::int64_t>() + row["of_version_2"].get<std::int64_t>() ==
            count);
    }
  }
}

TEST_CASE("print-order: because of the ranks' buffers, lines are out of order", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kSendRecv, "print-order");
    REQUIRE(rows.size() == 2);
    for (const json& row : rows) {
      // No line is lost or duplicated.
      const auto order = row["order"].get<std::vector<int>>();
      CHECK(order.size() == static_cast<std::size_t>(2 * ranks));
      CHECK(std::set<int>(order.begin(), order.end()).size() == order.size());
    }
    CHECK(rows[0]["out_of_place"] > 0);
    CHECK(rows[1]["flushed"] == true);
    CHECK(rows[1]["out_of_place"] == 0);
  }
  // The text output contains the lines of all ranks, in any order.
  const CommandResult plain = broken(4, kSendRecv, "print-order");
  for (const std::string line : {"line 0 by rank 0", "line 1 by rank 1", "line 3 by rank 3"}) {
    CHECK(plain.says(line));
  }
}

TEST_CASE("no-group: with NCCL, ungrouped sends wait in a cycle", "[break][gpu]") {
  for (const int ranks : {2, 3}) {
    const CommandResult result = broken(ranks, kSendRecv, "no-group", "--timeout 2");
    INFO(result.out << result.err);
    if (result.status == 2) {
      CHECK(result.out.empty());
      CHECK(result.err.find("error: no-group: ") == 0);
      continue;
    }
    CHECK(result.status == 86);
    CHECK(result.says("send and receive in a group: right numbers"));
    CHECK(result.says("NCCL call"));    // the report names NCCL's stream or call
    if (!DIST_CUDA_EMULATED) continue;  // the watch cannot see inside real NCCL
    CHECK(result.says("of ncclSend #1"));
    CHECK(result.says(ranks == 2 ? "cycle 0 -> 1 -> 0" : "cycle 0 -> 1 -> 2 -> 0"));
  }
}
