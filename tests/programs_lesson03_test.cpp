// Lesson 3's program as a reader runs it: its output, counts, forecasts and errors.
#include "tests/support/program_checks.hpp"

#include <cmath>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("all_reduce verifies every algorithm, op and size", "[lesson03]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string op : {"sum", "avg", "max"}) {
      const CommandResult result = mpirun(
          ranks, "all_reduce",
          "--json --iterations 2 --min-bytes 0 --max-bytes 400000 --no-registered --op " + op);
      INFO(op << result.err);
      CHECK(result.status == 0);
      const std::vector<json> rows = result.rows();
      CHECK(rows.size() >= 8 * 9);
      for (const json& row : rows) CHECK(row["wrong"] == 0);
    }
  }
  const CommandResult text = mpirun(4, "all_reduce", "");
  CHECK(text.says("verified: every element on every rank"));
  CHECK(lines(text.out) <= 25);
}

TEST_CASE("all_reduce's rows contain both bandwidths and what auto chose", "[lesson03]") {
  const CommandResult result =
      mpirun(4, "all_reduce", "--json --algorithm auto --min-bytes 1024 --max-bytes 4194304");
  const std::vector<json> rows = result.rows();
  REQUIRE_FALSE(rows.empty());
  for (const json& row : rows) CHECK(row["chosen"] == "shared-memory");
  for (const json& row : rows) {
    CHECK(row["algorithm"] == "auto");
    const double algbw = row["bytes"].get<double>() / row["time_us"].get<double>() / 1000;
    CHECK(std::abs(row["algbw_gbs"].get<double>() - algbw) <= 1e-6 * algbw);
    CHECK(std::abs(row["busbw_gbs"].get<double>() - 1.5 * algbw) <= 2e-6 * algbw);
  }
}

TEST_CASE("all_reduce refuses bad usage", "[lesson03]") {
  check_refused("all_reduce", "--algorithm nccl --device cpu", "--algorithm: nccl: ");
  check_refused("all_reduce", "--picture", "--picture: draws 2 to 16 ranks", 1);
  check_refused("all_reduce", "--simulate 4 --alpha-us -1", "--alpha-us: -1 is not between");
  check_refused("all_reduce", "--simulate 4 --ranks-per-host 5", "--ranks-per-host: 5 is more");
  check_refused("all_reduce", "--fitted", "--fitted: needs --simulate");
}

TEST_CASE("all_reduce's rows count messages, bytes and peers", "[lesson03]") {
  const TemporaryFolder folder;
  const std::string flags = "--json --iterations 1 --min-bytes 4096 --max-bytes 4096";
  for (const json& row : mpirun(4, "all_reduce", flags).rows()) {
    const std::string name = row["algorithm"];
    if (name == "ring") {
      CHECK(row["messages_per_rank"] == 6);
      CHECK(row["bytes_per_rank"] == 6144);
      CHECK(row["peers"] == json({1}));
    } else if (name == "mpi" || name == "nccl" || name == "shared-memory") {
      for (const char* key : {"messages_per_rank", "bytes_per_rank", "peers"}) {
        CHECK(row[key].is_null());
      }
    }
  }
}

TEST_CASE("all_reduce draws the ring as it ran", "[lesson03]") {
  const CommandResult four = mpirun(4, "all_reduce", "--max-bytes 1024");
  CHECK(four.says("rank 1    3:ab     2:abd    1:abcd |   0:abcd   3:abcd   2:abcd"));
  const CommandResult seven = mpirun(7, "all_reduce", "--picture --max-bytes 1024");
  CHECK(seven.says("6:abcdefg"));
  CHECK_FALSE(mpirun(7, "all_reduce", "--max-bytes 1024").says("6:abcdefg"));
}

TEST_CASE("all_reduce forecasts 65536 ranks from one process", "[lesson03]") {
  const CommandResult result =
      run_command("timeout 60 " PROGRAM_DIR "/all_reduce --simulate 65536 --json");
  INFO(result.err);
  CHECK(result.status == 0);
  const std::vector<json> rows = result.rows();
  std::set<std::string> algorithms;
  int crossovers = 0;
  for (const json& row : rows) {
    if (row.contains("crossover_bytes")) {
      ++crossovers;
      continue;
    }
    algorithms.insert(row["algorithm"].get<std::string>());
    CHECK(row["ranks"] == 65536);
    const double algbw = row["bytes"].get<double>() / row["time_us"].get<double>() / 1000;
    CHECK(std::abs(row["algbw_gbs"].get<double>() - algbw) <= 1e-6 * algbw);
    CHECK(row["latency_share"].get<double>() <= 1);
  }
  CHECK(algorithms ==
        std::set<std::string>{"hierarchical", "recursive-doubling", "ring", "tree"});
  CHECK(crossovers >= 1);
  CHECK(lines(mpirun(2, "all_reduce", "--simulate 65536").out) <= 25);
}

TEST_CASE("if only one end of a sweep is given, the other one adapts to it", "[lesson03]") {
  const auto sizes = [](const CommandResult& result) {
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    std::set<std::size_t> all;
    for (const json& row : result.rows()) {
      if (row.contains("bytes")) all.insert(row["bytes"].get<std::size_t>());
    }
    return all;
  };
  using Sizes = std::set<std::size_t>;
  const std::string run = "--algorithm ring --iterations 1 --json ";
  CHECK(sizes(mpirun(2, "all_reduce", run + "--min-bytes 33554432")) == Sizes{33'554'432});
  CHECK(sizes(mpirun(2, "all_reduce", run + "--max-bytes 16")) == Sizes{16});
  // By default, the forecast goes up to 1 GiB.
  const CommandResult forecast = run_command(
      "timeout 60 " PROGRAM_DIR "/all_reduce --simulate 8 --json --min-bytes 268435456");
  CHECK(sizes(forecast) == Sizes{268'435'456, 1'073'741'824});
  // On one host, hierarchical would be the same as the ring, so there is no crossover.
  CHECK_FALSE(forecast.says("hierarchical"));
  CHECK_FALSE(forecast.says("crossover"));
}
