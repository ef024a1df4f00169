// Lesson 5's experiments: the symptom that each promises is there, with its numbers.
#include "tests/support/program_checks.hpp"

#include <cmath>
#include <cstddef>
#include <iostream>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

CommandResult broken(int ranks, const std::string& name, const std::string& flags = "--json") {
  return mpirun(ranks, "broken/ddp_training", name + " " + flags, kNoGrace);
}

// The rows of an experiment that came to an end and saw its symptom.
std::vector<json> symptoms(int ranks, const std::string& name,
                           const std::string& flags = "--json") {
  const CommandResult result = broken(ranks, name, flags);
  INFO(ranks << " ranks, " << name << "\n" << result.out << result.err);
  REQUIRE(result.status == 0);
  std::vector<json> rows = result.rows();
  REQUIRE(!rows.empty());
  for (const json& row : rows) CHECK(row["break"] == name);
  return rows;
}

json symptom(int ranks, const std::string& name) {
  const std::vector<json> rows = symptoms(ranks, name);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

double number(const json& row, const char* key) {
  return row.at(key).get<double>();
}

// As the READMEs show it: at most half a screen, and the verdict.
void check_text(int ranks, const std::string& name, const std::string& line) {
  const CommandResult result = broken(ranks, name, "");
  INFO(result.out << result.err);
  CHECK(result.says(line));
  CHECK(result.says("verified: the symptom appeared"));
  CHECK(lines(result.out) <= 15);
}

// Whether this build has streams that queue; if not, that the program says so.
bool has_queues(const std::string& name) {
  const CommandResult result = broken(2, name, "--json --device auto");
  if (result.status != 2) return true;
  CHECK(result.err.find("error: " + name + ": on a CPU nothing is queued") == 0);
  CHECK(result.out.empty());
  std::cout << name << ": not run: " << result.err.substr(0, result.err.find('\n'))
            << std::endl;
  return false;
}

}  // namespace

TEST_CASE("ddp_training lists its experiments, and refuses what it cannot do", "[break]") {
  const std::vector<json> rows = mpirun(1, "broken/ddp_training", "list --json").rows();
  std::set<std::string> names;
  for (const json& row : rows) names.insert(row["break"].get<std::string>());
  CHECK(names == std::set<std::string>{"no-all-reduce", "skip-parameter", "gradient-noise",
                                       "update-noise", "average-parameters", "all-save",
                                       "rank0-loss", "lr", "no-wait", "tiny-model", "memory",
                                       "wrong-stream", "no-sync"});
  for (const std::string name : {"no-all-reduce", "memory", "no-sync"}) {
    check_refused("broken/ddp_training", name, "NAME: " + name + " needs 2 ranks", 1);
  }
  check_refused("broken/ddp_training", "nonsense", "NAME: 'nonsense' is none of list, ");
}

TEST_CASE("no-all-reduce: every loss falls, and no two replicas are equal", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, "no-all-reduce");
    std::set<std::string> hashes;
    for (const json& row : rows) {
      hashes.insert(row["hash"].get<std::string>());
      CHECK(row["parted_after"] == 1);
      CHECK(number(row, "last_loss") < 0.5 * number(row, "first_loss"));
    }
    CHECK(hashes.size() == static_cast<std::size_t>(ranks));
  }
  check_text(4, "no-all-reduce", "parted after step 1, first in 0.weight of ranks 0, 1, 2, 3");
}

TEST_CASE("skip-parameter: the check names the layer and the step", "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const json row = symptom(ranks, "skip-parameter");
    CHECK(row["parted_after"] == 1);
    CHECK(row["difference"].get<std::string>().find("2.bias of rank") == 0);
    CHECK(row["others_equal"] == true);
    const double loss = number(row, "loss");
    const double right = number(row, "right_loss");
    CHECK(loss != right);
    CHECK(std::abs(loss - right) < 0.05 * right);
  }
  check_text(4, "skip-parameter", "parted after step 1, first in 2.bias of ranks 0, 1, 2, 3");
}

TEST_CASE("noise before the average keeps replicas equal, after it parts them", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const json before = symptom(ranks, "gradient-noise");
    CHECK(before["parted_after"] == 0);
    CHECK(number(before, "moved") > 0.002);
    const json after = symptom(ranks, "update-noise");
    CHECK(after["parted_after"] == 1);
    CHECK(number(after, "spread_first") > 0);
    CHECK(number(after, "spread_first") < 1e-5);
    CHECK(number(after, "spread_last") > number(after, "spread_first"));
  }
  check_text(4, "gradient-noise", "the replicas are equal to the bit");
  check_text(4, "update-noise", "parted after step 1");
}

TEST_CASE("average-parameters: momentum is as linear as SGD, Adam is not", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, "average-parameters");
    REQUIRE(rows.size() == 3);
    for (const json& row : rows) {
      const bool adam = row["optimizer"] == "adam";
      CHECK((number(row, "every_step") < 1e-5) == !adam);
      CHECK(number(row, "every_4th_step") > 1e-4);
      if (adam) CHECK(number(row, "every_step") > 1e-3);
    }
  }
  check_text(4, "average-parameters", "below 1e-05 is rounding");
}

TEST_CASE("all-save: the reader catches the torn file", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, "all-save");
    CHECK(row["opened_again"] == "model.safetensors: of 0 bytes; not even a header's length");
    CHECK(row["second_whole"] == "whole, of step 11");
    CHECK(row["torn"] == "model.safetensors: damaged: its checksum is not that of its content");
    CHECK(row["unforced_failures"].get<int>() < ranks);
  }
  check_text(3, "all-save", "damaged: its checksum is not that of its content");
}

TEST_CASE("rank0-loss: rank 0 sees another loss, the mean is the one process's", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const json row = symptom(ranks, "rank0-loss");
    CHECK(number(row, "rank0_off") > 0.1);
    CHECK(number(row, "mean_off") < 1e-5);
    CHECK(row["misled"].get<int>() > 0);
  }
  check_text(4, "rank0-loss", "it saw the other direction");
}

TEST_CASE("lr: N times the rate helps a small one and ruins a large one", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, "lr");
    REQUIRE(rows.size() == 4);
    for (const json& row : rows) {
      const double lr = number(row, "lr");
      const bool small = row["optimizer"] == "sgd" ? lr < 0.2 : lr < 0.01;
      INFO(row);
      CHECK((number(row, "scaled") < number(row, "same")) == small);
      CHECK(row["warmed_up"].is_number());
    }
  }
}

TEST_CASE("no-wait: the late bucket is eaten unreduced", "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<json> rows = symptoms(ranks, "no-wait");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["parted_after"] == 0);
    CHECK(number(rows[0], "from_twin") < 1e-5);
    CHECK(rows[1]["parted_after"] == 1);
    CHECK(rows[1]["difference"].get<std::string>().find("0.weight of rank") == 0);
    CHECK(number(rows[1], "from_twin") > 1e-3);
  }
  check_text(4, "no-wait", "parted after step 1, first in 0.weight of ranks 0, 1, 2, 3");
}

// No time is asserted: the program's verdict must be that of its own numbers.
TEST_CASE("tiny-model: predicted, then measured, and judged by the measurement", "[break]") {
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, "tiny-model");
    INFO(result.out << result.err);
    const std::vector<json> rows = result.rows();
    REQUIRE(rows.size() == 1);
    const json& row = rows[0];
    CHECK(row["ranks"] == ranks);
    const double alone = number(row, "one_process_us");
    const double predicted =
        alone / (number(row, "share_us") + 2 * (ranks - 1) * number(row, "alpha_us"));
    CHECK(std::abs(number(row, "predicted") - predicted) < 1e-6 * predicted);
    const double measured = alone / number(row, "together_us");
    CHECK(std::abs(number(row, "measured") - measured) < 1e-6 * measured);
    CHECK(result.status == (number(row, "measured") < 1 ? 0 : 1));
  }
}

TEST_CASE("memory: a rank's bytes do not depend on the number of ranks", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, "memory");
    CHECK(rows.front()["ranks"] == 1);
    CHECK(rows.back()["ranks"] == ranks);
    for (const json& row : rows) {
      // 784 x 128 + 128 + 128 x 10 + 10 numbers, their gradients, and Adam's two; activations
      // and their gradients of 56 rows.
      CHECK(row["bytes_per_rank"] == 4 * (4 * 101770 + 2 * 56 * 138));
      CHECK(number(row, "bytes_of_all") ==
            number(row, "ranks") * number(row, "bytes_per_rank"));
      CHECK(row["activations_shared"] == 4 * 2 * (56 / row["ranks"].get<int>()) * 138);
    }
  }
  check_text(4, "memory", "only the data are divided");
}

TEST_CASE("wrong-stream: the all-reduce takes what was there before", "[break][gpu]") {
  if (!has_queues("wrong-stream")) return;
  for (const int ranks : {2, 4}) {
    for (const json& row : symptoms(ranks, "wrong-stream")) {
      CHECK(row["first_wrong"].get<int>() > 2);
      CHECK(number(row, "distance") > 0);
    }
  }
}

TEST_CASE("no-sync: the host reads before the copy is there", "[break][gpu]") {
  if (!has_queues("no-sync")) return;
  for (const int ranks : {2, 4}) {
    for (const json& row : symptoms(ranks, "no-sync")) CHECK(row["stale"].get<int>() > 0);
  }
}
