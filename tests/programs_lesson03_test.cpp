// Lesson 3's programs as a reader runs them: their output, counts, forecasts and errors.
#include "03_all_reduce/choice/cost_model.hpp"
#include "tests/support/program_checks.hpp"

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("all_reduce shows naive and ring, and runs any algorithm by name", "[lesson03]") {
  const CommandResult four = mpirun(4, "all_reduce", "");
  CHECK(four.status == 0);
  CHECK(four.says("naive: "));
  CHECK(four.says("ring: "));
  CHECK(four.says("verified: every number on every rank"));
  CHECK(lines(four.out) <= 25);
  const auto check_rows = [](int ranks, const std::string& flags, std::size_t count) {
    const CommandResult result = mpirun(ranks, "all_reduce", "--json " + flags);
    INFO(ranks << " ranks, " << flags << "\n" << result.err);
    CHECK(result.status == 0);
    CHECK(result.rows().size() == count);
    for (const json& row : result.rows()) CHECK(row["correct"] == true);
  };
  check_rows(1, "--op sum", 2);
  check_rows(2, "--op max", 4);
  check_rows(7, "--op avg", 14);
  for (const std::string algorithm :
       {"naive", "ring", "recursive-doubling", "rabenseifner", "ring-pipelined",
        "shared-memory", "hierarchical", "mpi", "auto"}) {
    check_rows(3, "--op avg --algorithm " + algorithm, 3);
  }
}

TEST_CASE("all_reduce draws the ring as it ran", "[lesson03]") {
  CHECK(mpirun(4, "all_reduce", "")
            .says("rank 1    3:ab     2:abd    1:abcd |   0:abcd   3:abcd   2:abcd"));
  CHECK_FALSE(mpirun(7, "all_reduce", "").says("step by step"));
}

TEST_CASE("all_reduce_perf verifies every algorithm, op and size", "[lesson03]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string op : {"sum", "avg", "max"}) {
      const CommandResult result = mpirun(
          ranks, "all_reduce_perf",
          "--json --iterations 2 --min-bytes 0 --max-bytes 400000 --no-registered --op " + op);
      INFO(op << result.err);
      CHECK(result.status == 0);
      const std::vector<json> rows = result.rows();
      CHECK(rows.size() >= 8 * 9);
      for (const json& row : rows) CHECK(row["wrong"] == 0);
    }
  }
  const CommandResult text = mpirun(4, "all_reduce_perf", "");
  CHECK(text.says("verified: every element on every rank"));
  CHECK(lines(text.out) <= 25);
}

TEST_CASE("all_reduce_perf's rows contain both bandwidths and what auto chose", "[lesson03]") {
  const CommandResult result = mpirun(
      4, "all_reduce_perf", "--json --algorithm auto --min-bytes 1024 --max-bytes 4194304");
  const std::vector<json> rows = result.rows();
  REQUIRE_FALSE(rows.empty());
  for (const json& row : rows) {
    CHECK(row["algorithm"] == "auto");
    CHECK(row["chosen"] == "shared-memory");
    CHECK(row["predicted_us"].is_null());
    const double algbw = row["bytes"].get<double>() / row["time_us"].get<double>() / 1000;
    CHECK(std::abs(row["algbw_gbs"].get<double>() - algbw) <= 1e-6 * algbw);
    CHECK(std::abs(row["busbw_gbs"].get<double>() - 1.5 * algbw) <= 2e-6 * algbw);
  }
}

TEST_CASE("all_reduce refuses bad usage", "[lesson03]") {
  check_refused("all_reduce", "--algorithm nccl", "--algorithm: 'nccl' is not one of");
  check_refused("all_reduce_perf", "--algorithm nccl --device cpu", "--algorithm: nccl: ");
}

TEST_CASE("all_reduce_perf's rows count messages, bytes and peers", "[lesson03]") {
  const TemporaryFolder folder;
  const std::string flags = "--json --iterations 1 --min-bytes 4096 --max-bytes 4096";
  for (const json& row : mpirun(4, "all_reduce_perf", flags).rows()) {
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

TEST_CASE("the forecast covers 65536 ranks, by the formulas of the cost model", "[lesson03]") {
  const std::string tools = SOURCE_DIR "/tools";
  const CommandResult table = run_command("python3 " + tools + "/forecast.py 65536");
  CHECK(table.status == 0);
  CHECK(table.says("bytes on, hierarchical is faster than recursive-doubling"));
  CHECK(lines(table.out) <= 25);
  // The same formulas in both languages: a machine with one rank per host has one kind of link.
  const CommandResult python = run_command("cd " + tools +
                                           " && python3 -B -c 'from forecast import *\n"
                                           "for p in 2, 3, 4, 7, 8, 61, 512, 65536:\n"
                                           "  for n in 0, 1000, 1e6, 1e9:\n"
                                           "    m = Machine(p, 1); print(p, n, ring(m, n), "
                                           "recursive_doubling(m, n), rabenseifner(m, n))'");
  INFO(python.err);
  REQUIRE(python.status == 0);
  std::istringstream numbers(python.out);
  dist::StepCosts costs;
  costs.link.alpha_s = 5e-6;
  costs.link.beta_s_per_byte = 1e-9 / 50;
  costs.gamma_s_per_byte = 0.001e-9;
  int compared = 0;
  double bytes = 0;
  for (int ranks = 0; numbers >> ranks >> bytes;) {
    for (const auto algorithm :
         {dist::AllReduceAlgorithm::ring, dist::AllReduceAlgorithm::recursive_doubling,
          dist::AllReduceAlgorithm::rabenseifner}) {
      double forecast = 0;
      numbers >> forecast;
      const double predicted = *dist::predict_all_reduce(algorithm, bytes, ranks, costs);
      INFO(ranks << " ranks, " << bytes << " bytes, " << to_string(algorithm));
      CHECK(std::abs(forecast - predicted) <= 1e-9 * predicted);
      ++compared;
    }
  }
  CHECK(compared == 8 * 4 * 3);
}

TEST_CASE("if only one end of a sweep is given, the other one adapts to it", "[lesson03]") {
  const auto sizes = [](const CommandResult& result) {
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    std::set<std::size_t> all;
    for (const json& row : result.rows()) all.insert(row["bytes"].get<std::size_t>());
    return all;
  };
  using Sizes = std::set<std::size_t>;
  const std::string run = "--algorithm ring --iterations 1 --json ";
  CHECK(sizes(mpirun(2, "all_reduce_perf", run + "--min-bytes 33554432")) == Sizes{33'554'432});
  CHECK(sizes(mpirun(2, "all_reduce_perf", run + "--max-bytes 16")) == Sizes{16});
}
