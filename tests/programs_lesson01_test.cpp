// Lesson 1's two programs, as a reader runs them: what they print, verify, save and refuse.
#include "tests/support/program_checks.hpp"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("send_recv shows four numbers per rank, verified, in at most 25 lines",
          "[lesson01]") {
  for (const int ranks : {1, 2, 4, 7}) {
    const CommandResult result = mpirun(ranks, "send_recv", "");
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.says("verified: every number is what it must be, on every rank"));
    CHECK(lines(result.out) <= 25);
  }
}

TEST_CASE("send_recv's rows contain each rank's numbers in rank order", "[lesson01]") {
  const CommandResult result = mpirun(3, "send_recv", "--json");
  const std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 6);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i]["rank"] == i % 3);
  CHECK(rows[1]["act"] == "message");
  CHECK(rows[1]["before"] == json({1000, 1001, 1002, 1003}));
  CHECK(rows[1]["after"] == json({0, 1, 2, 3}));
  CHECK(rows[2]["after"] == rows[2]["before"]);
  CHECK(rows[3]["act"] == "ring");
  CHECK(rows[3]["after"] == json({3000, 3003, 3006, 3009}));
  CHECK(rows[4]["after"] == json({1000, 1002, 1004, 1006}));
}

TEST_CASE("ping-pong prints one row per size, then the fit, which it saves", "[lesson01]") {
  const TemporaryFolder folder;
  const CommandResult result = mpirun_in(
      folder, 2, "send_recv_perf", "--act pingpong --min-bytes 4 --max-bytes 65536 --json");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 9);
  const json fit = rows.back();
  rows.pop_back();
  for (const json& row : rows) {
    CHECK(row["act"] == "pingpong");
    const double us = row["time_us"];
    const double expected = row["bytes"].get<double>() / us / 1000;
    CHECK(us > 0);
    CHECK(std::abs(row["bandwidth_gbs"].get<double>() - expected) <= 1e-6 * expected);
  }
  CHECK(rows.front()["bytes"] == 4);
  CHECK(rows.back()["bytes"] == 65536);

  CHECK(fit["act"] == "fit");
  const json kept = json::parse(content_of(folder / ".learn/alpha-beta.json"));
  for (const char* key : {"alpha_us", "beta_ns_per_byte", "r2"}) {
    // --json prints nine digits, whereas the file has full precision.
    const double in_full = kept[key].get<double>();
    CHECK(std::abs(fit[key].get<double>() - in_full) <= 1e-8 * std::abs(in_full));
  }
  // On a busy machine, the large messages may be the fast ones, and the fitted line is flat.
  CHECK(fit["alpha_us"] >= 0);
  CHECK(fit["beta_ns_per_byte"] >= 0);
  CHECK(fit["alpha_us"].get<double>() + fit["beta_ns_per_byte"].get<double>() > 0);
  CHECK(fit["r2"] <= 1);
  CHECK(kept["ranks"] == 2);
  REQUIRE(kept["message"].size() == 8);
  REQUIRE(kept["exchange"].size() == 8);
  CHECK(kept["message"][7]["bytes"] == 65536);
}

TEST_CASE("two sizes are too few for a fit, and the saved fit remains", "[lesson01]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << "old";
  const CommandResult result = mpirun_in(folder, 2, "send_recv_perf",
                                         "--act pingpong --min-bytes 4 --max-bytes 16 --json");
  CHECK(result.status == 0);
  const std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[2] == json{{"act", "fit"},
                        {"alpha_us", nullptr},
                        {"beta_ns_per_byte", nullptr},
                        {"r2", nullptr}});
  CHECK(content_of(folder / ".learn/alpha-beta.json") == "old");
}

TEST_CASE("if the fit cannot be saved, the status is 1 and the error names the file",
          "[lesson01]") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".learn") << "no folder";
  const CommandResult result =
      mpirun_in(folder, 2, "send_recv_perf", "--act pingpong --max-bytes 1024");
  CHECK(result.status == 1);
  CHECK(result.says("[rank 0] fatal: .learn/alpha-beta.json: cannot be written"));
}

TEST_CASE("send_recv_perf --act all finishes on any number of ranks", "[lesson01]") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2, 3}) {
    const CommandResult result =
        mpirun_in(folder, ranks, "send_recv_perf", "--act all --max-bytes 4096");
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.says("if all send first") == (ranks > 1));
    CHECK_FALSE(result.says("deadlock"));
  }
}

TEST_CASE("the five kinds of exchange are shown side by side, with the cases that would hang",
          "[lesson01]") {
  const CommandResult eager = mpirun(3, "send_recv_perf", "--act eager --json");
  REQUIRE(eager.rows().size() == 1);
  const json limit = eager.rows()[0]["eager_limit_bytes"];
  CHECK(limit > 0);
  const CommandResult result = mpirun(3, "send_recv_perf", "--act exchange --json");
  CHECK(result.status == 0);
  const std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 5 * 3);
  for (const json& row : rows) {
    CHECK(row["wrong"] == 0);
    CHECK(row["time_us"] > 0);
  }
  CHECK(rows[0]["call"] == "MPI_Send");
  CHECK(rows[0]["if_all_send_first"] == "hangs above " + limit.dump() + " bytes");
  CHECK(rows[3]["call"] == "MPI_Ssend");
  CHECK(rows[3]["if_all_send_first"] == "hangs");
  for (const std::size_t i : {6, 9, 12}) CHECK(rows[i]["if_all_send_first"] == "works");
}

TEST_CASE("the deadlock is reported with ranks, call, size, tag and cycle; the status is 86",
          "[lesson01][quick]") {
  const CommandResult two = mpirun(2, "send_recv_perf", "--act deadlock --timeout 2");
  INFO(two.out << two.err);
  CHECK(two.status == 86);
  CHECK(
      two.says("hang: rank 0 in MPI_Send to 1 (4 MiB, tag 0); rank 1 in MPI_Send to 0 "
               "(4 MiB, tag 0): cycle 0 -> 1 -> 0"));
  const CommandResult three = mpirun(3, "send_recv_perf", "--act deadlock --timeout 2");
  CHECK(three.status == 86);
  CHECK(three.says("cycle 0 -> 1 -> 2 -> 0"));
}

TEST_CASE("NCCL moves the numbers to the next rank, or says why it cannot", "[lesson01]") {
  for (const int ranks : {1, 2, 4}) {
    const CommandResult result = mpirun(ranks, "send_recv_perf", "--act nccl --json");
    INFO(ranks << " ranks\n" << result.out << result.err);
    if (result.status == 2) {
      CHECK(result.err.find("error: --act: nccl: ") != std::string::npos);
      continue;
    }
    CHECK(result.status == 0);
    const std::vector<json> rows = result.rows();
    REQUIRE(rows.size() == static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      const int left = (rank + ranks - 1) % ranks;
      CHECK(rows[static_cast<std::size_t>(rank)]["after"][1] == 1000 * left + 1);
    }
  }
}

TEST_CASE("send_recv_perf refuses bad usage", "[lesson01]") {
  for (const std::string act : {"pingpong", "eager", "exchange", "deadlock"}) {
    check_refused("send_recv_perf", "--act " + act, "--act: " + act + " needs two ranks", 1);
  }
  check_refused("send_recv_perf", "--act pingpong --max-bytes 8589934592",
                "--max-bytes: 8589934592 is not between");
}
