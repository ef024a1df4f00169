// The traces of runs that succeed and of runs that fail.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

// Reads a trace and checks what must hold for every trace.
json checked_trace(const std::string& path, int ranks) {
  const json trace = json::parse(content_of(path));
  std::set<int> pids;
  std::map<std::size_t, const json*> departures;
  std::vector<const json*> arrivals;
  std::vector<const json*> slices;
  std::set<std::pair<int, int>> named;
  for (const json& event : trace["traceEvents"]) {
    const std::string type = event["ph"];
    pids.insert(event["pid"].get<int>());
    if (type == "M" && event["name"] == "thread_name") {
      named.insert({event["pid"].get<int>(), event["tid"].get<int>()});
    }
    if (type == "s") {
      CHECK(departures.count(event["id"]) == 0);
      departures[event["id"]] = &event;
    }
    if (type == "f") arrivals.push_back(&event);
    if (type != "X") continue;
    slices.push_back(&event);
    CHECK(event["ts"].get<double>() >= 0);
    CHECK(event["dur"].get<double>() >= 0);
  }
  CHECK(pids.size() == static_cast<std::size_t>(ranks));
  CHECK(arrivals.size() == departures.size());
  // Each end of an arrow must lie within a slice of its row.
  const auto lies_in_slice = [&](const json& end) {
    return std::any_of(slices.begin(), slices.end(), [&](const json* slice) {
      const double begin = (*slice)["ts"];
      const double at = end["ts"];
      return (*slice)["pid"] == end["pid"] && (*slice)["tid"] == end["tid"] && begin <= at &&
             at <= begin + (*slice)["dur"].get<double>() + 1e-3;
    });
  };
  for (const json* arrival : arrivals) {
    const auto departure = departures.find((*arrival)["id"]);
    REQUIRE(departure != departures.end());
    CHECK((*departure->second)["ts"].get<double>() <= (*arrival)["ts"].get<double>());
    CHECK(lies_in_slice(*arrival));
    CHECK(lies_in_slice(*departure->second));
  }
  for (const json* slice : slices) {
    CHECK(named.count({(*slice)["pid"].get<int>(), (*slice)["tid"].get<int>()}) == 1);
  }
  return trace;
}

std::ptrdiff_t count_events(const json& trace, const std::string& type,
                            const std::string& name) {
  const json& events = trace["traceEvents"];
  return std::count_if(events.begin(), events.end(), [&](const json& event) {
    return event["ph"] == type && event["name"] == name;
  });
}

}  // namespace

TEST_CASE("every program writes a trace, with and without --strict", "[trace]") {
  const TemporaryFolder folder;
  for (const std::string program : {"send_recv", "broadcast", "all_reduce --algorithm ring",
                                    "distributed_sampler", "ddp_training --max-steps 3"}) {
    for (const std::string strict : {"", " --strict"}) {
      const CommandResult result =
          mpirun(3, program, "--trace " + (folder / "t.json") + strict);
      INFO(program << strict << "\n" << result.err);
      CHECK(result.status == 0);
      const json trace = checked_trace(folder / "t.json", 3);
      CHECK(count_events(trace, "X", "MPI_Finalize") == 3);
      std::filesystem::remove(folder / "t.json");
    }
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a trace contains each message of the ring, with size, peer and arrow", "[trace]") {
  const TemporaryFolder folder;
  CHECK(mpirun(4, "send_recv", "--trace " + (folder / "t.json")).status == 0);
  const json trace = checked_trace(folder / "t.json", 4);
  // One message from rank 0 to rank 1, then four around the ring.
  CHECK(count_events(trace, "X", "MPI_Send") == 5);
  CHECK(count_events(trace, "X", "MPI_Recv") == 5);
  CHECK(count_events(trace, "s", "message") == 5);
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "MPI_Send") continue;
    CHECK(event["args"]["bytes"] == 16);
    CHECK(event["args"]["to"] == (event["pid"].get<int>() + 1) % 4);
    CHECK(event["args"]["tag"] == 0);
  }
}

TEST_CASE("the trace of a hang is written, including the call that hangs", "[trace]") {
  const TemporaryFolder folder;
  for (const std::string name : {"wrong-tag", "stopped", "first-stopped", "named --strict"}) {
    const CommandResult result =
        mpirun(4, kHangs, "--timeout 1 --case " + name + " --trace " + (folder / "t.json"));
    INFO(name << result.err);
    CHECK(result.status == 86);
    CHECK(result.says("the trace is in " + (folder / "t.json")));
    const json trace = checked_trace(folder / "t.json", 4);
    if (name == "wrong-tag") CHECK(count_events(trace, "X", "MPI_Recv") == 1);
    if (name == "stopped") CHECK(count_events(trace, "X", "MPI_Allreduce") == 3);
    if (name == "named --strict") {
      CHECK(count_events(trace, "X", "all_reduce") == 4 * 6 + 1);  // rank 0 finishes its 7th
      for (const json& event : trace["traceEvents"]) {
        if (event["name"] == "all_reduce") {
          CHECK(event["args"]["tensor"] == "bucket 2: 2.weight, 2.bias");
        }
      }
    }
    std::filesystem::remove(folder / "t.json");
  }
}

TEST_CASE("a trace that cannot be written is refused before anything runs", "[trace]") {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "no/such/folder", folder.path().string()}) {
    const CommandResult result = mpirun(3, "send_recv", "--trace " + path);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("error: --trace: ") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a trace is limited in size and says what did not fit", "[trace]") {
  const TemporaryFolder folder;
  const CommandResult result =
      mpirun(2, kHangs, "--case chatter --trace " + (folder / "t.json"));
  CHECK(result.status == 0);
  CHECK(result.err.find("trace: no room for the first ") != std::string::npos);
  const json trace = json::parse(content_of(folder / "t.json"));
  const json& dropped = trace["otherData"]["droppedEvents"];
  CHECK(dropped.size() == 2);
  // An exchange is recorded as a slice and two ends of arrows. The last exchanges are kept.
  CHECK(dropped["rank 0"].get<int>() >= 3 * 60'000 - (1 << 17));
  CHECK(count_events(trace, "X", "MPI_Finalize") == 2);
}
