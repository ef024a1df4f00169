// Lesson 2's program as a reader runs it: what it prints, predicts and refuses.
#include "tests/support/program_checks.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("broadcast shows the root's numbers on all ranks, by every algorithm", "[lesson02]") {
  for (const int ranks : {1, 4, 7}) {
    const int root = ranks - 1;
    std::set<std::string> acts;
    for (const std::string flags :
         {"", "--algorithm pipeline", "--algorithm scatter-all-gather", "--algorithm mpi"}) {
      const CommandResult result =
          mpirun(ranks, "broadcast", flags + " --json --root " + std::to_string(root));
      INFO(result.err);
      CHECK(result.status == 0);
      const std::vector<json> rows = result.rows();
      CHECK(rows.size() == static_cast<std::size_t>(flags.empty() ? 2 * ranks : ranks));
      for (const json& row : rows) {
        acts.insert(row["act"].get<std::string>());
        CHECK(row["after"][3] == 1000 * root + 3);
        CHECK(row["correct"] == true);
      }
    }
    CHECK(acts ==
          std::set<std::string>{"flat", "tree", "pipeline", "scatter-all-gather", "mpi"});
  }
  const CommandResult text = mpirun(4, "broadcast", "--root 1");
  CHECK(text.says("tree: every rank that has them passes them on (rounds: 2)"));
  CHECK(text.says("rank 3  df34bf38f82ac10b  ->  b79a0ee7666eb2e6"));
  CHECK(text.says("verified: every element, on every rank"));
  CHECK(lines(text.out) <= 25);
}

TEST_CASE("broadcast_perf verifies every algorithm, size and root", "[lesson02]") {
  for (const int ranks : {1, 2, 4, 7}) {
    const CommandResult result =
        mpirun(ranks, "broadcast_perf",
               "--json --iterations 2 --max-bytes 262144 --root " + std::to_string(ranks - 1));
    INFO(result.err);
    CHECK(result.status == 0);
    std::set<std::string> algorithms;
    for (const json& row : result.rows()) {
      algorithms.insert(row["algorithm"].get<std::string>());
      CHECK(row["wrong"] == 0);
      CHECK(row["ranks"] == ranks);
      CHECK(row.contains("rounds"));
      CHECK(row.contains("predicted_us"));
    }
    CHECK(algorithms.count("scatter-all-gather") == 1);
    CHECK(algorithms.size() >= 5);
  }
}

TEST_CASE(
    "broadcast_perf predicts times from lesson 1's fit, and makes no prediction without it",
    "[lesson02]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--json --device cpu --iterations 2 --min-bytes 65536 --max-bytes 65536";
  for (const json& row : mpirun_in(folder, 3, "broadcast_perf", flags).rows()) {
    CHECK(row["predicted_us"].is_null());
  }
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << R"({
    "alpha_us": 10, "beta_ns_per_byte": 1, "r2": 1, "ranks": 3, "device": "cpu",
    "message": [], "exchange": []})";
  std::map<std::string, json> rows;
  for (const json& row : mpirun_in(folder, 3, "broadcast_perf", flags).rows()) {
    rows[row["algorithm"]] = row;
  }
  const auto near = [](const json& number, double want) {
    return std::abs(number.get<double>() - want) <= 1e-6 * want;
  };
  CHECK(near(rows["flat"]["predicted_us"], 2 * (10 + 65.536)));
  CHECK(near(rows["tree"]["predicted_us"], 2 * (10 + 65.536)));
  // sqrt((3 - 2) * 65.536 / 10) = 2.56: three segments of 21,888 bytes (342 cache lines).
  CHECK(rows["pipeline"]["rounds"] == 3 + 3 - 2);
  CHECK(near(rows["pipeline"]["predicted_us"], 4 * (10 + 21.888)));
  CHECK(rows["scatter-all-gather"]["rounds"] == 2 + 2);
  // The root sends one chunk to rank 2 and one to rank 1, and two steps of the ring follow.
  // Each message has 21,846 bytes.
  CHECK(near(rows["scatter-all-gather"]["predicted_us"], 4 * (10 + 21.846)));
  CHECK(rows["mpi"]["predicted_us"].is_null());
  CHECK(rows["mpi"]["rounds"].is_null());

  // The text output shows the error next to the time.
  const CommandResult text = mpirun_in(folder, 4, "broadcast_perf", "--device cpu");
  CHECK(text.says(
      "alpha 10.00 us, beta 1.0000 ns per byte, from lesson 1's ping-pong on 3 ranks"));
  CHECK(text.says("%)"));
  CHECK(text.says("verified: every element on every rank, for every algorithm and size"));
}

TEST_CASE("broadcast_perf refuses a damaged alpha-beta.json, on all ranks together",
          "[lesson02]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << R"({"alpha_us": 1)";
  const CommandResult result = mpirun_in(folder, 3, "broadcast_perf", "");
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.says(
      "error: .learn/alpha-beta.json: not JSON; remove the file, or measure again"));
}

TEST_CASE("broadcast_perf refuses bad usage", "[lesson02]") {
  check_refused("broadcast_perf", "--algorithm nccl --device cpu", "--algorithm: nccl: ");
}
