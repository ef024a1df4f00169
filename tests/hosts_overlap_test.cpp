// Runs lesson 5 on two hosts with a slow cable: what overlap hides, seen in the trace.
#include "tests/support/catch.hpp"
#include "tests/support/two_hosts.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

std::vector<json> slices_of(const json& trace, int rank, const std::string& name) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == rank && event["name"] == name) {
      found.push_back(event);
    }
  }
  return found;
}

const auto begin_of = [](const json& slice) { return slice["ts"].get<double>(); };
const auto end_of = [](const json& s) { return begin_of(s) + s["dur"].get<double>(); };

// The first layer is small, so little is left to send when backward ends. The batches are
// large, so backward takes a long time.
constexpr const char* kDeep =
    "--layers 32,512,512,512,512,10 --dataset synthetic --samples 4096 --batch-size 512 "
    "--max-steps 8 ";

// Runs training with `flags` on two hosts with a slow cable, and writes the trace to `file`.
json traced(const std::string& flags, const std::string& file) {
  const CommandResult result = on_two_hosts(
      1, "ddp_training", kDeep + flags + " --json --trace " + file, "--rate 1gbit");
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.rows().back();
}

}  // namespace

TEST_CASE("overlap sends gradients earlier but does not change their values", "[hosts]") {
  if (!there_are_two_hosts()) return;
  const TemporaryFolder folder;
  const json with = traced("--overlap", folder / "with.json");
  const json without = traced("--no-overlap", folder / "without.json");
  CHECK(with["parameters"] == without["parameters"]);
  CHECK(with["hidden"].get<double>() > 0);
  CHECK(without["hidden"] == 0.0);
  CHECK(without["hideable_comm_ms"].get<double>() > 0);

  const json trace = json::parse(content_of(folder / "with.json"));
  const json blocking = json::parse(content_of(folder / "without.json"));
  const std::vector<std::string> names{
      "bucket 0: 8.bias, 8.weight, 6.bias, 6.weight", "bucket 1: 4.bias, 4.weight",
      "bucket 2: 2.bias, 2.weight", "bucket 3: 0.bias, 0.weight"};
  for (const int rank : {0, 1}) {
    for (const json* run : {&trace, &blocking}) {
      const std::vector<json> backward = slices_of(*run, rank, "backward");
      const std::vector<json> waits = slices_of(*run, rank, "wait for all-reduces");
      const std::vector<json> reduces = slices_of(*run, rank, "all_reduce");
      REQUIRE(backward.size() == 8);
      REQUIRE(waits.size() == 8);
      REQUIRE(reduces.size() == 8 * names.size());
      int inside = 0;
      for (std::size_t i = 0; i < reduces.size(); ++i) {
        const std::size_t step = i / names.size();
        CHECK(reduces[i]["args"]["number"] == i + 1);
        CHECK(reduces[i]["args"]["tensor"] == names[i % names.size()]);
        // The all-reduces run in order, begin after backward has begun, and end before the wait
        // for them ends.
        CHECK(begin_of(reduces[i]) >= begin_of(backward[step]));
        CHECK(end_of(reduces[i]) <= end_of(waits[step]));
        if (i > 0) CHECK(begin_of(reduces[i]) >= end_of(reduces[i - 1]));
        if (end_of(reduces[i]) <= end_of(backward[step])) ++inside;
        // Without overlap, backward itself waits, and the all-reduces are on its row of the
        // trace.
        const bool own_row = reduces[i]["tid"] != backward[step]["tid"];
        CHECK(own_row == (run == &trace));
        if (run == &blocking) CHECK(end_of(reduces[i]) <= end_of(backward[step]));
      }
      // The last bucket is not full until backward ends. By then, some of the other buckets
      // have been sent.
      CHECK(inside > 0);
    }
  }
}
