// Runs the programs on two hosts: two network namespaces on this machine
// (support/two_hosts.sh), joined by a virtual cable that can be slowed down or unplugged.
#include "tests/support/catch.hpp"
#include "tests/support/two_hosts.hpp"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

// Each rank's host, taken from the names of the trace's processes.
std::map<int, std::string> hosts_in(const json& trace) {
  std::map<int, std::string> hosts;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "process_name") continue;
    const std::string name = event["args"]["name"];  // "rank 0 on host-a"
    hosts[event["pid"]] = name.substr(name.rfind(' ') + 1);
  }
  return hosts;
}

}  // namespace

TEST_CASE("no process of the two hosts survives when their script is killed", "[hosts]") {
  if (!there_are_two_hosts()) return;
  const TemporaryFolder folder;
  const std::string f = folder.path().string();
  // Each rank holds a lock until its process ends.
  const std::string rank = "exec 9<" + f + " && flock -s 9 && touch " + f +
                           "/$OMPI_COMM_WORLD_RANK && exec sleep 1000";
  const CommandResult result =
      run_command(std::string(kTwoHosts) + "sh -c '" + rank +
                  "' & script=$!; timeout 30 sh -c 'until [ -e " + f + "/0 ] && [ -e " + f +
                  "/1 ]; do sleep 0.05; done' && ! flock -n " + f +
                  " true && kill -9 $script && timeout 30 flock " + f + " echo all have ended");
  INFO(result.err);
  CHECK(result.out == "all have ended\n");
}

TEST_CASE("the five programs give correct results on two hosts", "[hosts]") {
  if (!there_are_two_hosts()) return;
  for (const int ranks_per_host : {1, 2}) {
    for (const std::string program :
         {"send_recv", "send_recv_perf --act exchange", "broadcast_perf --max-bytes 262144",
          "all_reduce_perf --max-bytes 262144 --iterations 2",
          "all_reduce_perf --max-bytes 65536 --iterations 2 --op max --strict",
          "distributed_sampler", "ddp_training --epochs 1",
          "ddp_training --epochs 1 --backend mpi"}) {
      const CommandResult result = on_two_hosts(ranks_per_host, program, "");
      INFO(ranks_per_host << " " << program << "\n" << result.out << result.err);
      CHECK(result.status == 0);
      CHECK(result.out.find("verified: ") != std::string::npos);
    }
  }
}

TEST_CASE("two hosts share no memory", "[hosts]") {
  if (!there_are_two_hosts()) return;
  for (const std::string program : {"all_reduce", "all_reduce_perf", "ddp_training"}) {
    const CommandResult result = on_two_hosts(2, program, "--algorithm shared-memory");
    INFO(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(
        result.err.find("error: --algorithm: shared-memory: the 4 ranks are on several hosts, "
                        "which share no memory\n") != std::string::npos);
    CHECK(result.err.find("error: ") == result.err.rfind("error: "));
  }
}

TEST_CASE("the hierarchical all-reduce sends each byte over the cable once per direction",
          "[hosts]") {
  if (!there_are_two_hosts()) return;
  constexpr double kBytes = 1 << 20;
  // The bytes to the other host in one all-reduce, as a multiple of the tensor's size: what ten
  // more all-reduces add.
  const auto carried = [&](const std::string& algorithm) {
    const auto bytes_of = [&](int iterations) {
      const CommandResult result =
          on_two_hosts(2, "all_reduce_perf",
                       "--min-bytes 1048576 --max-bytes 1048576 --iterations " +
                           std::to_string(iterations) + " --algorithm " + algorithm,
                       "--count-bytes");
      INFO(algorithm << "\n" << result.out << result.err);
      REQUIRE(result.status == 0);
      const std::string before = "two_hosts: the cable carried ";
      const std::size_t found = result.out.find(before);
      REQUIRE(found != std::string::npos);
      return std::stod(result.out.substr(found + before.size()));
    };
    return (bytes_of(11) - bytes_of(1)) / (10 * kBytes);
  };
  const double hierarchical = carried("hierarchical");
  CHECK(hierarchical > 0.99);
  CHECK(hierarchical < 1.1);  // mpirun's own messages and TCP's headers are counted, too
  const double ring = carried("ring");
  CHECK(ring > 1.49);
  CHECK(ring < 1.65);
}

TEST_CASE("on several hosts with several ranks each, auto becomes hierarchical", "[hosts]") {
  if (!there_are_two_hosts()) return;
  const auto chosen = [](int ranks_per_host, const std::string& flags) {
    const CommandResult result =
        on_two_hosts(ranks_per_host, "all_reduce_perf", "--json " + flags);
    INFO(result.out << result.err);
    REQUIRE(result.status == 0);
    std::set<std::string> names;
    for (const json& row : result.rows()) {
      CHECK(row["wrong"] == 0);
      if (row["algorithm"] == "auto") names.insert(row["chosen"].get<std::string>());
    }
    return names;
  };
  const std::string large = "--min-bytes 1048576 --max-bytes 16777216 --iterations 2 ";
  CHECK(chosen(2, large) == std::set<std::string>{"hierarchical"});
  CHECK(chosen(2, large + "--no-registered") == std::set<std::string>{"hierarchical"});
  CHECK_FALSE(chosen(1, large).contains("hierarchical"));
  const CommandResult training =
      on_two_hosts(2, "ddp_training", "--algorithm hierarchical --epochs 1 --overlap");
  INFO(training.out << training.err);
  CHECK(training.says("verified: "));
}

TEST_CASE("the eager limit is that of shared memory within a host and of TCP between hosts",
          "[hosts]") {
  if (!there_are_two_hosts()) return;
  const CommandResult result = on_two_hosts(2, "send_recv_perf", "--act eager --json");
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  const std::vector<json> rows = result.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["same_host"] == true);
  CHECK(rows[1]["same_host"] == false);
  // In Open MPI 4.1 and 5, btl_tcp_eager_limit is 64 KiB, some of which the envelope takes up.
  const auto limit = rows[1]["eager_limit_bytes"].get<std::size_t>();
  CHECK(limit > 60'000);
  CHECK(limit <= 65'536);
  CHECK(rows[0]["eager_limit_bytes"].get<std::size_t>() < limit);
}

TEST_CASE("the cost of a message between hosts is kept only if ranks 0 and 1 are on two",
          "[hosts]") {
  if (!there_are_two_hosts()) return;
  const TemporaryFolder folder;
  const auto run = [&](const std::string& launcher, const std::string& program) {
    const CommandResult result =
        run_command("cd " + folder.path().string() + " && timeout 60 " + launcher +
                    " " PROGRAM_DIR "/" + program + " --min-bytes 4 --max-bytes 65536");
    INFO(result.out << result.err);
    CHECK(result.status == 0);
    return result;
  };
  const std::string one_rank_each = kTwoHosts + "--ranks-per-host 1";
  const CommandResult mixed = run(kTwoHosts + "--ranks-per-host 2", "send_recv_perf");
  CHECK(mixed.says("not saved, because ranks 0 and 1 share a host"));
  CHECK_FALSE(std::filesystem::exists(folder / ".learn"));
  CHECK(run(one_rank_each, "send_recv_perf").says("saved in .learn/alpha-beta.json"));
  const std::string tree = "broadcast_perf --algorithm tree --json";
  for (const json& row : run(one_rank_each, tree).rows()) {
    CHECK(row["predicted_us"].is_number());
  }
  for (const json& row : run(MPIEXEC " -np 2", tree).rows()) {
    CHECK(row["predicted_us"].is_null());
  }
}

TEST_CASE("a trace contains the ranks of both hosts, on one clock", "[hosts]") {
  if (!there_are_two_hosts()) return;
  const TemporaryFolder folder;
  const CommandResult result = on_two_hosts(
      2, "all_reduce_perf",
      "--algorithm ring --max-bytes 1024 --iterations 5 --trace " + (folder / "t.json"));
  INFO(result.err);
  REQUIRE(result.status == 0);
  const json trace = json::parse(content_of(folder / "t.json"));
  CHECK(hosts_in(trace) ==
        std::map<int, std::string>{{0, "host-a"}, {1, "host-a"}, {2, "host-b"}, {3, "host-b"}});
  // The two hosts share a clock, so any offset that is found is an error. The error is at most
  // half a round trip, which takes milliseconds on a busy machine.
  const json& offsets = trace["otherData"]["clockOffsetsNs"];
  REQUIRE(offsets.size() == 4);
  CHECK(offsets["rank 0"] == 0);
  CHECK(offsets["rank 1"] == 0);
  CHECK(offsets["rank 2"] == offsets["rank 3"]);
  CHECK(std::abs(offsets["rank 2"].get<double>()) < 2e7);
  // Every message arrives after it was sent, even between hosts.
  std::map<std::size_t, json> departures;
  int between = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") departures[event["id"]] = event;
  }
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "f") continue;
    const json& departure = departures.at(event["id"]);
    const bool other_host = (departure["pid"] < 2) != (event["pid"] < 2);
    const double slack_us = other_host ? std::abs(offsets["rank 2"].get<double>()) / 1e3 : 0;
    CHECK(departure["ts"].get<double>() <= event["ts"].get<double>() + slack_us);
    if (other_host) ++between;
  }
  CHECK(between > 0);
}

TEST_CASE("when a job hangs on both hosts, each host reports on its own ranks", "[hosts]") {
  if (!there_are_two_hosts()) return;
  const TemporaryFolder folder;
  const CommandResult result = on_two_hosts(
      2, kHangs, "--timeout 1 --case skipped-collective --trace " + (folder / "t.json"));
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.says("ranks 0, 1 are in MPI_Allreduce #7 (4 B)\n"));
  CHECK(
      result.says("rank 3 is in MPI_Allreduce #7 (4 B); rank 2 never entered it, last seen in "
                  "#6 (MPI_Barrier)\n"));
  CHECK(result.says("hang: the other hosts report about their own ranks\n"));
  CHECK(hosts_in(json::parse(content_of(folder / "t.json"))) ==
        std::map<int, std::string>{{0, "host-a"}, {1, "host-a"}});
  CHECK(hosts_in(json::parse(content_of(folder / "t.json.rank2"))) ==
        std::map<int, std::string>{{2, "host-b"}, {3, "host-b"}});
}
