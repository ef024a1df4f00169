// The programs, as a reader runs them: what they print, what they verify, what they refuse.
#include "04_distributed_sampler/idx_dataset.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using dist::test::check_golden_run;
using dist::test::close;
using dist::test::CommandResult;
using dist::test::content_of;
using dist::test::mpirun;
using dist::test::mpirun_in;
using dist::test::run_command;
using dist::test::TemporaryFolder;
using dist::test::trained;
using dist::test::Training;
using nlohmann::json;

namespace {

std::ptrdiff_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Bad usage: status 2, one error line on standard error that names the flag, nothing on
// standard output.
void check_refused(const std::string& program, const std::string& flags,
                   const std::string& message, int ranks = 3) {
  const CommandResult result = mpirun(ranks, program, flags);
  INFO(program << " " << flags << "\n" << result.out << result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  const std::string error = "error: " + message;
  CHECK(result.err.find(error) != std::string::npos);
  CHECK(result.err.find("error: ", result.err.find("error: ") + 1) == std::string::npos);
}

}  // namespace

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

TEST_CASE("send_recv's rows hold each rank's numbers in rank order", "[lesson01]") {
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

TEST_CASE("ping-pong has one row per size, then the fit, which it keeps", "[lesson01]") {
  const TemporaryFolder folder;
  const CommandResult result = mpirun_in(
      folder, 2, "send_recv", "--act pingpong --min-bytes 4 --max-bytes 65536 --json");
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
    // --json prints nine digits, the file all of them.
    const double in_full = kept[key].get<double>();
    CHECK(std::abs(fit[key].get<double>() - in_full) <= 1e-8 * std::abs(in_full));
  }
  CHECK(fit["alpha_us"] > 0);
  CHECK(fit["beta_ns_per_byte"] > 0);
  CHECK(fit["r2"] <= 1);
  CHECK(kept["ranks"] == 2);
  REQUIRE(kept["message"].size() == 8);
  REQUIRE(kept["exchange"].size() == 8);
  CHECK(kept["message"][7]["bytes"] == 65536);
}

TEST_CASE("two sizes make no line: no fit, and the kept one stays", "[lesson01]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << "old";
  const CommandResult result =
      mpirun_in(folder, 2, "send_recv", "--act pingpong --min-bytes 4 --max-bytes 16 --json");
  CHECK(result.status == 0);
  const std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[2] == json{{"act", "fit"},
                        {"alpha_us", nullptr},
                        {"beta_ns_per_byte", nullptr},
                        {"r2", nullptr}});
  CHECK(content_of(folder / ".learn/alpha-beta.json") == "old");
}

TEST_CASE("a fit that cannot be kept is status 1, and says which file", "[lesson01]") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".learn") << "no folder";
  const CommandResult result =
      mpirun_in(folder, 2, "send_recv", "--act pingpong --max-bytes 1024");
  CHECK(result.status == 1);
  CHECK(result.says("[rank 0] fatal: .learn/alpha-beta.json: cannot be written"));
}

TEST_CASE("send_recv --act all comes to an end at any number of ranks", "[lesson01]") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2, 3}) {
    const CommandResult result =
        mpirun_in(folder, ranks, "send_recv", "--act all --max-bytes 4096");
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.says("if all send first") == (ranks > 1));
    CHECK_FALSE(result.says("deadlock"));
  }
}

TEST_CASE("the five ways stand side by side, with what would hang", "[lesson01]") {
  const CommandResult eager = mpirun(3, "send_recv", "--act eager --json");
  REQUIRE(eager.rows().size() == 1);
  const json limit = eager.rows()[0]["eager_limit_bytes"];
  CHECK(limit > 0);
  const CommandResult result = mpirun(3, "send_recv", "--act exchange --json");
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

TEST_CASE("the deadlock is named with ranks, call, size, tag and cycle, and ends with 86",
          "[lesson01]") {
  const CommandResult two = mpirun(2, "send_recv", "--act deadlock --timeout 2");
  INFO(two.out << two.err);
  CHECK(two.status == 86);
  CHECK(
      two.says("hang: rank 0 in MPI_Send to 1 (4 MiB, tag 0); rank 1 in MPI_Send to 0 "
               "(4 MiB, tag 0): cycle 0 -> 1 -> 0"));
  const CommandResult three = mpirun(3, "send_recv", "--act deadlock --timeout 2");
  CHECK(three.status == 86);
  CHECK(three.says("cycle 0 -> 1 -> 2 -> 0"));
}

TEST_CASE("NCCL moves the numbers one seat, or says why it cannot", "[lesson01]") {
  for (const int ranks : {1, 2, 4}) {
    const CommandResult result = mpirun(ranks, "send_recv", "--act nccl --json");
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

TEST_CASE("send_recv refuses bad usage", "[lesson01]") {
  check_refused("send_recv", "--bogus", "--bogus: unknown flag");
  check_refused("send_recv", "--act juggle", "--act: 'juggle' is none of");
  for (const std::string act : {"pingpong", "eager", "exchange", "deadlock"}) {
    check_refused("send_recv", "--act " + act, "--act: " + act + " needs two ranks", 1);
  }
  check_refused("send_recv", "--act pingpong --max-bytes 8589934592",
                "--max-bytes: 8589934592 is not between");
  check_refused("send_recv", "--min-bytes -4", "--min-bytes: -4 is not between");
  check_refused("send_recv", "--min-bytes 64 --max-bytes 16", "--min-bytes: larger than");
  check_refused("send_recv", "--max-bytes 99999999999999999999", "--max-bytes: 999");
  check_refused("send_recv", "--threads nan", "--threads: 'nan' is not a whole number");
}

TEST_CASE("help and version go to standard output, once, with status 0", "[lesson01]") {
  const CommandResult help = mpirun(3, "send_recv", "--help");
  CHECK(help.status == 0);
  CHECK(help.out.find("--act") != std::string::npos);
  CHECK(help.out.find("--act") == help.out.rfind("--act"));
  CHECK(lines(help.out) <= 25);
  const CommandResult all = mpirun(2, "ddp_training", "--help-all");
  CHECK(all.says("--sampler-seed"));
  CHECK_FALSE(mpirun(2, "ddp_training", "--help").says("--sampler-seed"));
  CHECK(mpirun(2, "all_reduce", "--version").out == "all_reduce 0.1.0\n");
}

TEST_CASE("broadcast verifies every algorithm, size and root", "[lesson02]") {
  for (const int ranks : {1, 2, 4, 7}) {
    const CommandResult result =
        mpirun(ranks, "broadcast",
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
  const CommandResult text = mpirun(4, "broadcast", "");
  CHECK(text.says("verified: every element on every rank"));
  CHECK(lines(text.out) <= 25);
}

TEST_CASE("broadcast predicts from what lesson 1 kept, and is silent without it",
          "[lesson02]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--json --device cpu --iterations 2 --min-bytes 65536 --max-bytes 65536";
  for (const json& row : mpirun_in(folder, 3, "broadcast", flags).rows()) {
    CHECK(row["predicted_us"].is_null());
  }
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << R"({
    "alpha_us": 10, "beta_ns_per_byte": 1, "r2": 1, "ranks": 3, "device": "cpu",
    "message": [], "exchange": []})";
  std::map<std::string, json> rows;
  for (const json& row : mpirun_in(folder, 3, "broadcast", flags).rows()) {
    rows[row["algorithm"]] = row;
  }
  const auto near = [](const json& number, double want) {
    return std::abs(number.get<double>() - want) <= 1e-6 * want;
  };
  CHECK(near(rows["flat"]["predicted_us"], 2 * (10 + 65.536)));
  CHECK(near(rows["tree"]["predicted_us"], 2 * (10 + 65.536)));
  // sqrt((3 - 2) * 65.536 / 10) = 2.56: three segments of 21,888 bytes, which is 342 lines.
  CHECK(rows["pipeline"]["rounds"] == 3 + 3 - 2);
  CHECK(near(rows["pipeline"]["predicted_us"], 4 * (10 + 21.888)));
  CHECK(rows["scatter-all-gather"]["rounds"] == 2 + 2);
  // A chunk to rank 2, one to rank 1, and two steps of the ring: 21,846 bytes each.
  CHECK(near(rows["scatter-all-gather"]["predicted_us"], 4 * (10 + 21.846)));
  CHECK(rows["mpi"]["predicted_us"].is_null());
  CHECK(rows["mpi"]["rounds"].is_null());

  // A human sees the error beside the time.
  const CommandResult text = mpirun_in(folder, 4, "broadcast", "--device cpu");
  CHECK(text.says("alpha 10.00 us, beta 1.0000 ns (lesson 1's ping-pong on 3 ranks)"));
  CHECK(text.says("%)"));
  CHECK(lines(text.out) <= 25);
}

TEST_CASE("broadcast refuses a damaged alpha-beta.json, on all ranks together", "[lesson02]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".learn");
  std::ofstream(folder / ".learn/alpha-beta.json") << R"({"alpha_us": 1)";
  const CommandResult result = mpirun_in(folder, 3, "broadcast", "");
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.says("error: .learn/alpha-beta.json: not JSON; measure again"));
}

TEST_CASE("broadcast refuses bad usage", "[lesson02]") {
  check_refused("broadcast", "--root 3", "--root: there is no rank 3 among 3");
  check_refused("broadcast", "--root -1", "--root: -1 is not between");
  check_refused("broadcast", "--algorithm magic", "--algorithm: 'magic' is none of");
  check_refused("broadcast", "--max-bytes 1023 --min-bytes 4", "--max-bytes: 1023");
  check_refused("broadcast", "--algorithm nccl --device cpu", "--algorithm: nccl: ");
}

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

TEST_CASE("all_reduce's rows carry both bandwidths and what auto chose", "[lesson03]") {
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
  check_refused("all_reduce", "--op product", "--op: 'product' is none of");
  check_refused("all_reduce", "--iterations 0", "--iterations: 0 is not between");
  check_refused("all_reduce", "--min-bytes 2", "--min-bytes: 2 is no whole number of floats");
  check_refused("all_reduce", "--algorithm nccl --device cpu", "--algorithm: nccl: ");
  check_refused("all_reduce", "--picture", "--picture: draws 2 to 16 ranks", 1);
  check_refused("all_reduce", "--simulate 0", "--simulate: 0 is not between");
  check_refused("all_reduce", "--simulate 65537", "--simulate: 65537 is not between");
  check_refused("all_reduce", "--simulate 4 --alpha-us nan", "--alpha-us: 'nan'");
  check_refused("all_reduce", "--simulate 4 --alpha-us -1", "--alpha-us: -1 is not between");
  check_refused("all_reduce", "--simulate 4 --beta-ns-per-byte 0", "--beta-ns-per-byte: 0 is");
  check_refused("all_reduce", "--simulate 4 --ranks-per-host 5",
                "--ranks-per-host: 5 are more");
  check_refused("all_reduce", "--fitted", "--fitted: goes together with --simulate");
  check_refused("all_reduce", "--alpha-us 3", "--alpha-us: goes together with --simulate");
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
  CHECK(algorithms == std::set<std::string>{"recursive-doubling", "ring", "tree", "two-level"});
  CHECK(crossovers >= 1);
  CHECK(lines(mpirun(2, "all_reduce", "--simulate 65536").out) <= 25);
}

TEST_CASE("distributed_sampler proves its partition", "[lesson04]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string flags :
         {"", "--size 10 --drop-last", "--size 2", "--size 0",
          "--size 1000 --no-shuffle --epoch 3", "--picture", "--act policies --size 1"}) {
      const CommandResult result = mpirun(ranks, "distributed_sampler", flags);
      INFO(ranks << " ranks, " << flags << "\n" << result.out << result.err);
      CHECK(result.status == 0);
      CHECK(result.says("verified: every sample was taken as often as it must be"));
      CHECK(lines(result.out) <= 25);
    }
  }
}

TEST_CASE("distributed_sampler prints what lesson 4's README shows", "[lesson04]") {
  const std::string readme = content_of(SOURCE_DIR "/04_distributed_sampler/README.md");
  for (const std::string flags : {"", "--drop-last", "--epoch 1"}) {
    const CommandResult result = mpirun(4, "distributed_sampler", flags);
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    // Of the variations the README shows the ranks' lines.
    const std::size_t begin = flags.empty() ? 0 : result.out.find("  rank 0");
    const std::size_t end = flags.empty() ? result.out.size() : result.out.find("taken over");
    REQUIRE(begin < end);
    REQUIRE(end <= result.out.size());
    CHECK(readme.find(result.out.substr(begin, end - begin)) != std::string::npos);
  }
}

TEST_CASE("each policy counts what it repeats and leaves out", "[lesson04]") {
  for (const int ranks : {1, 3, 4}) {
    for (const int size : {1, 2, 3, 10, 12, 1001}) {
      const std::vector<json> rows =
          mpirun(ranks, "distributed_sampler",
                 "--act policies --json --size " + std::to_string(size))
              .rows();
      INFO(ranks << " ranks, " << size << " samples");
      REQUIRE(rows.size() == 3);
      const int up = (size + ranks - 1) / ranks, down = size / ranks;
      const json &pad = rows[0], &drop = rows[1], &exact = rows[2];
      CHECK(pad["taken"] == up * ranks);
      CHECK(pad["never"] == 0);
      if (size >= ranks) CHECK(pad["again"] == up * ranks - size);
      CHECK(drop["taken"] == down * ranks);
      CHECK(drop["again"] == 0);
      CHECK(drop["never"] == size - down * ranks);
      CHECK(exact["taken"] == size);
      CHECK(exact["once"] == size);
      CHECK(exact["fewest_per_rank"] == down);
      CHECK(exact["most_per_rank"] == up);
      const int mistakes = std::clamp(size / 4, 1, 2);
      CHECK(close(exact["accuracy"], double(size - mistakes) / size));
    }
  }
}

TEST_CASE("reading ahead gives the batches of the plain loop, from memory and from a file",
          "[lesson04]") {
  const CommandResult result =
      mpirun(2, "distributed_sampler", "--act loader --json --batch-size 16");
  INFO(result.out << result.err);
  CHECK(result.status == 0);  // the program compares every batch
  const std::vector<json> rows = result.rows();
  CHECK(rows.size() == 4);
  for (const json& row : rows) {
    CHECK(row["act"] == "loader");
    CHECK(row["total_ns_plain"].get<double>() > 0);
    CHECK(row["total_ns_prefetch"].get<double>() > 0);
  }
}

TEST_CASE("a file that is shortened while it is mapped ends the process with its name",
          "[lesson04]") {
  const TemporaryFolder folder;
  const std::string path = folder / "data";
  const std::size_t size = 1 << 20;
  std::ofstream(path, std::ios::binary) << std::string(size, 'x');
  const std::string said = folder / "said";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (std::freopen(said.c_str(), "w", stderr) == nullptr) ::_exit(99);
    const dist::FileBytes file = dist::open_file(path);
    std::filesystem::resize_file(path, size / 2);
    unsigned sum = 0;
    for (const std::uint8_t byte : file.span()) sum += byte;
    ::_exit(sum == 0 ? 97 : 98);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(content_of(said) ==
        "[rank 0] fatal: " + path + ": shortened while in use, byte 524288 is gone\n");
}

TEST_CASE("distributed_sampler answers for a world that is not there", "[lesson04]") {
  const std::vector<json> launched =
      mpirun(3, "distributed_sampler", "--size 11 --json").rows();
  REQUIRE(launched.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<json> alone =
        run_command(PROGRAM_DIR
                    "/distributed_sampler --size 11 --num-replicas 3 --json --rank " +
                    std::to_string(rank))
            .rows();
    REQUIRE(alone.size() == 1);
    CHECK(alone[0] == launched[static_cast<std::size_t>(rank)]);
  }
}

TEST_CASE("distributed_sampler refuses bad usage", "[lesson04]") {
  check_refused("distributed_sampler", "--rank 1", "--rank: goes together with --num-replicas");
  check_refused("distributed_sampler", "--rank 4 --num-replicas 4",
                "--rank: there is no rank 4");
  check_refused("distributed_sampler", "--rank 1 --num-replicas 4 --act policies",
                "--rank: a world that is not here shows its shards only");
  check_refused("distributed_sampler", "--act juggle", "--act: 'juggle' is none of");
  check_refused("distributed_sampler", "--size -1", "--size: -1 is not between");
  check_refused("distributed_sampler", "--batch-size 0", "--batch-size: 0 is not between");
}

TEST_CASE("four ranks learn the digits with the defaults", "[lesson05]") {
  const Training run = trained(mpirun(4, "ddp_training", "--json"));
  CHECK(run.final["test_accuracy"].get<double>() >= 0.97);
  CHECK(run.final["replicas_identical"] == true);
  CHECK(run.final["ranks"] == 4);
  CHECK(run.losses.front() > 2.0);
  CHECK(run.losses.back() < 0.2);
  for (const char* key : {"samples_per_second", "step_ms", "compute_ms", "comm_ms"}) {
    CHECK(run.final[key].get<double>() > 0);
  }
}

TEST_CASE("N ranks with batch B lose as one process with batch N B", "[lesson05]") {
  const std::string common =
      "--json --dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --epochs 3 ";
  for (const std::string optimizer : {"sgd --lr 0.1 --momentum 0.9 --nesterov", "adamw"}) {
    const std::string flags = common + "--optimizer " + optimizer;
    const Training alone =
        trained(run_command(PROGRAM_DIR "/single_process --batch-size 60 " + flags));
    CHECK(alone.losses.size() == 15);
    for (const int ranks : {1, 2, 3, 4}) {
      const Training together =
          trained(mpirun(ranks, "ddp_training", "--global-batch 60 " + flags));
      REQUIRE(together.losses.size() == alone.losses.size());
      for (std::size_t i = 0; i < alone.losses.size(); ++i) {
        CHECK(close(together.losses[i], alone.losses[i]));
      }
    }
  }
}

TEST_CASE("training runs of real PyTorch DDP are reproduced", "[lesson05]") {
  const json golden = json::parse(content_of(GOLDEN_DIR "/training.json"));
  CHECK(golden["runs"].size() == 15);
  for (const json& run : golden["runs"]) check_golden_run(run, "--device cpu");
}

TEST_CASE("lesson 5's README shows the losses of its job, and PyTorch's", "[lesson05]") {
  const std::string readme = content_of(SOURCE_DIR "/05_ddp_training/README.md");
  const std::size_t begin = readme.find("\njob=\"");
  REQUIRE(begin != std::string::npos);
  const std::string job = readme.substr(begin + 6, readme.find('"', begin + 6) - begin - 6);
  const Training run = trained(mpirun(3, "ddp_training", "--dataset synthetic " + job));
  std::size_t shown = 0;
  std::istringstream text(readme);
  for (std::string line; std::getline(text, line);) {
    std::size_t step = 0;
    double losses[3] = {};
    if (std::sscanf(line.c_str(), "| %zu | %lf | %lf | %lf |", &step, &losses[0], &losses[1],
                    &losses[2]) != 4) {
      continue;
    }
    REQUIRE(step == shown++);
    for (const double loss : losses) CHECK(close(run.losses.at(step), loss));
  }
  CHECK(shown == run.losses.size());
}

TEST_CASE("the rows carry the learning rate of their step", "[lesson05]") {
  const std::string job =
      "--json --dataset synthetic --samples 64 --layers 6,5,3 --classes 3 --batch-size 4 "
      "--max-steps 5 --optimizer sgd --momentum 0.9 --lr 0.125 ";
  using Rates = std::vector<double>;
  CHECK(trained(mpirun(2, "ddp_training", job)).rates == Rates(5, 0.125));
  CHECK(trained(mpirun(2, "ddp_training", job + "--scale-lr")).rates == Rates(5, 0.25));
  CHECK(trained(mpirun(3, "ddp_training", job + "--scale-lr --warmup-steps 2")).rates ==
        Rates{0.125, 0.25, 0.375, 0.375, 0.375});
  const Rates from_zero{0.0, 0.03125, 0.0625, 0.09375, 0.125};
  const TemporaryFolder folder;
  const std::string warm = job + "--warmup-steps 4 --metrics " + (folder / "steps.jsonl");
  CHECK(trained(run_command(PROGRAM_DIR "/single_process " + warm)).rates == from_zero);
  CHECK(trained({0, content_of(folder / "steps.jsonl"), ""}).rates == from_zero);

  // It is the rate that the step took: one step with 0 leaves the loss of the whole set alone.
  const std::string whole =
      "--json --dataset synthetic --samples 16 --layers 6,5,3 --classes 3 --batch-size 16 "
      "--max-steps 3 --warmup-steps 2 --lr 0.1 --optimizer sgd --no-shuffle";
  const Training run = trained(run_command(PROGRAM_DIR "/single_process " + whole));
  CHECK(run.losses[1] == run.losses[0]);
  CHECK(run.losses[2] < run.losses[1]);
}

TEST_CASE("all backends, algorithms and both ways of averaging learn the same", "[lesson05]") {
  const std::string common =
      "--json --dataset synthetic --samples 96 --layers 12,9,4 --classes 4 --epochs 2 "
      "--batch-size 8 ";
  const Training ours = trained(mpirun(3, "ddp_training", common));
  for (const std::string flags :
       {"--backend mpi", "--algorithm naive", "--algorithm ring",
        "--algorithm recursive-doubling", "--algorithm mpi", "--data-parallel naive",
        "--overlap", "--no-overlap", "--bucket-cap-mb 0.0001 --first-bucket-mb 0",
        "--overlap --bucket-cap-mb 0", "--device cpu --backend mpi-nonblocking",
        "--batch-size 4 --accumulate 2", "--batch-size 2 --accumulate 4 --overlap"}) {
    const Training other = trained(mpirun(3, "ddp_training", common + flags));
    INFO(flags);
    REQUIRE(other.losses.size() == ours.losses.size());
    for (std::size_t i = 0; i < ours.losses.size(); ++i) {
      CHECK(close(other.losses[i], ours.losses[i]));
    }
  }
}

TEST_CASE("MNIST's own files are learned to 94 % in 10 epochs", "[lesson05]") {
  const std::string folder = SOURCE_DIR "/../shared/data/mnist-10k";
  if (!std::filesystem::is_directory(folder)) {
    WARN("skipped: no MNIST files at " << folder);
    return;
  }
  const Training run =
      trained(mpirun(4, "ddp_training", "--json --dataset idx --epochs 10 --data " + folder));
  CHECK(run.final["test_accuracy"].get<double>() >= 0.94);
}

TEST_CASE("accuracy is that of the whole test set, whatever the number of ranks",
          "[lesson05]") {
  // One rank's 0.97 may be another count than 7 ranks' 0.97: only exact shards give equal
  // fractions of one denominator. With lr 0 the model is the same everywhere.
  std::set<double> accuracies;
  for (const int ranks : {1, 3, 7}) {
    accuracies.insert(trained(mpirun(ranks, "ddp_training", "--json --max-steps 1 --lr 0"))
                          .final["test_accuracy"]
                          .get<double>());
  }
  CHECK(accuracies.size() == 1);
}

TEST_CASE("checkpoint and metrics are written by rank 0 alone", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--dataset synthetic --samples 64 --layers 6,5,3 --classes 3 --batch-size 4 --epochs 2 "
      "--checkpoint-every 3 --checkpoint " +
      (folder / "model.safetensors") + " --metrics " + (folder / "steps.jsonl");
  const CommandResult result = mpirun(4, "ddp_training", flags);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(lines(content_of(folder / "steps.jsonl")) == 8);
  const std::string bytes = content_of(folder / "model.safetensors");
  REQUIRE(bytes.size() > 8);
  CHECK(bytes.find("\"0.weight\"") != std::string::npos);
  CHECK(bytes.find("\"step\":\"8\"") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("training refuses bad usage, and writes nothing", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string idx = "--dataset idx --data ";
  std::filesystem::create_directory(folder / "empty");
  const auto write_idx = [&](const std::string& name, std::size_t keep) {
    std::filesystem::create_directory(folder / name);
    const std::vector<std::uint8_t> gray(60, 7);
    const auto pixels = dist::format_idx_images({10, 2, 3, gray});
    std::ofstream(folder / (name + "/x-images-idx3-ubyte"), std::ios::binary)
        .write(reinterpret_cast<const char*>(pixels.data()),
               static_cast<std::streamsize>(std::min(keep, pixels.size())));
    const auto labels = dist::format_idx_labels(std::vector<std::uint8_t>(10, 1));
    std::ofstream(folder / (name + "/x-labels-idx1-ubyte"), std::ios::binary)
        .write(reinterpret_cast<const char*>(labels.data()),
               static_cast<std::streamsize>(labels.size()));
  };
  write_idx("whole", 1000);
  write_idx("cut", 40);

  const std::string program = "ddp_training";
  check_refused(program, "--bogus 3", "--bogus: unknown flag");
  check_refused(program, "--lr nan", "--lr: 'nan' is not a number");
  check_refused(program, "--lr -1", "--lr: -1 is not between");
  const std::string sgd = "--optimizer sgd ";
  check_refused(program, "--optimizer lion", "--optimizer: 'lion' is none of");
  check_refused(program, "--weight-decay -0.1", "--weight-decay: -0.1 is not between");
  check_refused(program, "--eps -1e-8", "--eps: -1e-8 is not between");
  check_refused(program, "--eps inf", "--eps: 'inf' is not a number");
  check_refused(program, "--betas 0.9", "--betas: '0.9' is not 2 numbers");
  check_refused(program, "--betas 0.9,0.99,0.999", "--betas: '0.9,0.99,0.999' is not 2");
  check_refused(program, "--betas 0.9,", "--betas: '' is not a number");
  check_refused(program, "--betas 0.9,x", "--betas: 'x' is not a number");
  check_refused(program, "--betas -0.1,0.999", "--betas: -0.1 is not between");
  check_refused(program, "--betas 0.9,1.5", "--betas: 1.5 is not between");
  check_refused(program, "--betas 1,0.999", "--betas: 1 is not below 1");
  check_refused(program, "--optimizer adamw --betas 0.9,1.0", "--betas: 1 is not below 1");
  check_refused(program, "--momentum 0.9", "--momentum: is for --optimizer sgd, not for adam");
  check_refused(program, "--optimizer adamw --momentum 0",
                "--momentum: is for --optimizer sgd");
  check_refused(program, "--optimizer adamw --dampening 0.1", "--dampening: is for");
  check_refused(program, "--nesterov", "--nesterov: is for --optimizer sgd, not for adam");
  check_refused(program, sgd + "--betas 0.9,0.99", "--betas: is for --optimizer adam and");
  check_refused(program, sgd + "--eps 1e-8", "--eps: is for --optimizer adam and adamw");
  check_refused(program, sgd + "--momentum -0.1", "--momentum: -0.1 is not between");
  check_refused(program, sgd + "--momentum 1.5", "--momentum: 1.5 is not between");
  check_refused(program, sgd + "--nesterov", "--nesterov: needs --momentum above 0");
  check_refused(program, sgd + "--nesterov --momentum 0.9 --dampening 0.1",
                "--nesterov: needs --dampening 0");
  check_refused(program, sgd + "--nesterov=yes --momentum 0.9", "--nesterov: takes no value");
  check_refused(program, sgd + "--dampening 0.5", "--dampening: needs --momentum above 0");
  check_refused(program, sgd + "--momentum 0.9 --dampening 2", "--dampening: 2 is not between");
  check_refused(program, "--warmup-steps -1", "--warmup-steps: -1 is not between");
  check_refused(program, "--warmup-steps 1.5", "--warmup-steps: '1.5' is not a whole number");
  check_refused(program, "--scale-lr --global-batch 60", "--scale-lr: --global-batch is the");
  check_refused(program, "--epochs -5", "--epochs: -5 is not between");
  check_refused(program, "--layers 784,0,10", "--layers: 0 is not between");
  check_refused(program, "--layers 100,10", "--layers: the input width is 100");
  check_refused(program, "--layers 784,9", "--layers: the output width is 9");
  check_refused(program, "--batch-size 100000", "--batch-size: 100000 per rank");
  check_refused(program, "--global-batch 64", "--global-batch: 64 does not divide by 3 ranks");
  check_refused(program, "--dataset synthetic --samples 2 --batch-size 1",
                "--dataset: 2 samples for 3 ranks");
  check_refused(program, "--dataset synthetic --samples 9 --batch-size 4 --loader-drop-last",
                "--loader-drop-last: leaves no batch");
  check_refused(program, "--dataset idx", "--data: goes together with");
  check_refused(program, idx + (folder / "missing"), "--data: ");
  check_refused(program, idx + (folder / "empty"), "--data: ");
  check_refused(program, idx + (folder / "cut"),
                "--data: " + (folder / "cut/x-images-idx3-ubyte: truncated"));
  check_refused(program, idx + (folder / "whole") + " --layers 784,10",
                "--layers: the input width is 784, a sample has 6 features");
  check_refused(program, "--backend nccl --device cpu", "--backend: nccl: ");
  check_refused(program, "--checkpoint " + (folder / "no/such/folder/x"), "--checkpoint: ");
  check_refused(program, "--metrics " + folder.path().string(), "--metrics: ");
  check_refused(program, "--algorithm ring --backend mpi",
                "--algorithm: is for the backend ours");
  check_refused(program, "--checkpoint " + (folder / "x") + " --metrics " + (folder / "x"),
                "--metrics: names the same file");
  check_refused(program, "--checkpoint-every 5", "--checkpoint-every: needs --checkpoint");
  // A good file beside a bad flag: nothing may be written.
  check_refused(program,
                "--lr x --checkpoint " + (folder / "new") + " --metrics " + (folder / "m"),
                "--lr: 'x'");
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  CHECK_FALSE(std::filesystem::exists(folder / "m"));
  CHECK(run_command(PROGRAM_DIR "/single_process --epochs -5").status == 2);
}

TEST_CASE("a failure at run time is status 1, with one process as with many", "[lesson05]") {
  const std::string flags = "--metrics /dev/full --max-steps 3";
  const CommandResult alone = run_command(PROGRAM_DIR "/single_process " + flags);
  CHECK(alone.status == 1);
  CHECK(alone.err == "[rank 0] fatal: /dev/full: cannot be written\n");
  const CommandResult together = mpirun(3, "ddp_training", flags);
  CHECK(together.status == 1);
  CHECK(together.err.find("[rank 0] fatal: /dev/full: cannot be written") != std::string::npos);
}

TEST_CASE("an exception on one rank ends all, and is printed with its rank", "[lesson05]") {
  // The folder goes away after the first checkpoint: rank 0, which writes, throws alone.
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const CommandResult result = run_command(
      "timeout 120 " MPIEXEC " -np 3 sh -c 'exec " PROGRAM_DIR
      "/ddp_training --dataset synthetic --samples 30000 --layers 64,64,4 --classes 4 "
      "--batch-size 4 --checkpoint-every 1 --checkpoint " +
      (folder / "gone/x") + "' & pid=$!; until [ -e " + (folder / "gone/x") +
      " ] || ! kill -0 $pid; do sleep 0.05; done; mv " + (folder / "gone") + " " +
      (folder / "away") + "; wait $pid");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("[rank 0] fatal: ") != std::string::npos);
}

TEST_CASE("the test runner prints a failure with its rank and fails all", "[harness]") {
  const CommandResult result = mpirun(3, "../tests/lesson01_test", "'[.rank-1-fails]'");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("[rank 1] ") != std::string::npos);
  CHECK(result.err.find("rank 1 fails on purpose") != std::string::npos);
  CHECK(result.err.find("[rank 2] ") == std::string::npos);
}

TEST_CASE("the test runner ends a test that hangs, and names it", "[harness]") {
  const CommandResult result =
      run_command("TEST_CASE_SECONDS=2 timeout 120 " MPIEXEC " -np 3 " PROGRAM_DIR
                  "/../tests/lesson01_test '[.hangs]'");
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.err.find("hang: test case \"all but rank 0 wait for ever on purpose\"") !=
        std::string::npos);
}
