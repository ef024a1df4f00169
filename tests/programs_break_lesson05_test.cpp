// Lesson 5's experiments: each shows the symptom and the numbers that it promises.
#include "common/device.hpp"
#include "tests/support/broken_run.hpp"

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::string kTrainer = "ddp_training";

double number(const json& row, const char* key) {
  return row.at(key).get<double>();
}

}  // namespace

TEST_CASE("ddp_training lists its experiments and refuses those that it cannot run",
          "[break]") {
  check_list(kTrainer, {"no-all-reduce", "skip-parameter", "gradient-noise", "update-noise",
                        "average-parameters", "all-save", "rank0-loss", "lr", "no-wait",
                        "iallreduce", "tiny-model", "memory", "fp16-underflow", "wrong-stream",
                        "no-sync", "loss-item"});
  for (const std::string name : {"no-all-reduce", "memory", "no-sync"}) {
    check_refused("broken/ddp_training", name, "NAME: " + name + " needs 2 ranks", 1);
  }
  check_refused("broken/ddp_training", "nonsense", "NAME: 'nonsense' is not one of list, ");
}

TEST_CASE("no-all-reduce: every loss falls, and no two replicas are equal", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "no-all-reduce");
    std::set<std::string> hashes;
    for (const json& row : rows) {
      hashes.insert(row["hash"].get<std::string>());
      CHECK(row["parted_after"] == 1);
      CHECK(number(row, "last_loss") < 0.5 * number(row, "first_loss"));
    }
    CHECK(hashes.size() == static_cast<std::size_t>(ranks));
  }
  check_text(4, kTrainer, "no-all-reduce",
             "parted after step 1, first in 0.weight of ranks 0, 1, 2, 3");
}

TEST_CASE("skip-parameter: the check names the layer and the step", "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const json row = symptom(ranks, kTrainer, "skip-parameter");
    CHECK(row["parted_after"] == 1);
    CHECK(row["difference"].get<std::string>().find("2.bias of rank") == 0);
    CHECK(row["others_equal"] == true);
    const double loss = number(row, "loss");
    const double right = number(row, "right_loss");
    CHECK(loss != right);
    CHECK(std::abs(loss - right) < 0.05 * right);
  }
  check_text(4, kTrainer, "skip-parameter",
             "parted after step 1, first in 2.bias of ranks 0, 1, 2, 3");
}

TEST_CASE("noise added before averaging keeps replicas equal; noise added afterwards does not",
          "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const json before = symptom(ranks, kTrainer, "gradient-noise");
    CHECK(before["parted_after"] == 0);
    CHECK(number(before, "moved") > 0.002);
    const json after = symptom(ranks, kTrainer, "update-noise");
    CHECK(after["parted_after"] == 1);
    CHECK(number(after, "spread_first") > 0);
    CHECK(number(after, "spread_first") < 1e-5);
    CHECK(number(after, "spread_last") > number(after, "spread_first"));
  }
  check_text(4, kTrainer, "gradient-noise", "the replicas are equal, bit for bit");
  check_text(4, kTrainer, "update-noise", "parted after step 1");
}

TEST_CASE("average-parameters: momentum is linear, as SGD is, but Adam is not", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "average-parameters");
    REQUIRE(rows.size() == 3);
    for (const json& row : rows) {
      const bool adam = row["optimizer"] == "adam";
      CHECK((number(row, "every_step") < 1e-5) == !adam);
      CHECK(number(row, "every_4th_step") > 1e-4);
      if (adam) CHECK(number(row, "every_step") > 1e-3);
    }
  }
  check_text(4, kTrainer, "average-parameters", "below 1e-05 is rounding");
}

TEST_CASE("all-save: the reader detects the torn file", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kTrainer, "all-save");
    CHECK(row["opened_again"] ==
          "model.safetensors: has 0 bytes, too few for the length of a header");
    CHECK(row["second_whole"] == "whole, of step 11");
    CHECK(row["torn"] == "model.safetensors: damaged: its checksum does not match its content");
    CHECK(row["unforced_failures"] == 0);
    CHECK(row["unforced_file"] == "whole, of step 12");
  }
  check_text(3, kTrainer, "all-save", "damaged: its checksum does not match its content");
}

TEST_CASE("rank0-loss: rank 0 sees a different loss; the mean is that of one process",
          "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const json row = symptom(ranks, kTrainer, "rank0-loss");
    CHECK(number(row, "rank0_off") > 0.1);
    CHECK(number(row, "mean_off") < 1e-5);
    CHECK(row["misled"].get<int>() > 0);
  }
  check_text(4, kTrainer, "rank0-loss", "it moved in the opposite direction");
}

TEST_CASE("lr: N times the learning rate helps if the rate is small and hurts if it is large",
          "[break]") {
  for (const int ranks : {2, 4}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "lr");
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

TEST_CASE("no-wait: the late bucket is used before it is reduced", "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "no-wait");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["parted_after"] == 0);
    CHECK(number(rows[0], "from_twin") < 1e-5);
    CHECK(rows[1]["parted_after"] == 1);
    CHECK(rows[1]["difference"].get<std::string>().find("0.weight of rank") == 0);
    CHECK(number(rows[1], "from_twin") > 1e-3);
  }
  check_text(4, kTrainer, "no-wait",
             "parted after step 1, first in 0.weight of ranks 0, 1, 2, 3");
}

TEST_CASE("iallreduce: only the blocking call on a thread is complete", "[break]") {
  for (const int ranks : {2, 4}) {
    const json row = symptom(ranks, kTrainer, "iallreduce");
    CHECK(row["nonblocking"] == false);
    CHECK(row["on_thread"] == true);
  }
}

// No times are checked: the program's verdict must follow from its own measurements.
TEST_CASE("tiny-model: predicts, then measures, and judges by the measurement", "[break]") {
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, kTrainer, "tiny-model", "--json");
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
  // A row's activations and their gradients; on a GPU also a bit for each ReLU.
  const int row_bytes = 4 * 2 * 138 + (dist::cuda_device_count() > 0 ? 128 / 8 : 0);
  for (const int ranks : {2, 4, 7}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "memory");
    CHECK(rows.front()["ranks"] == 1);
    CHECK(rows.back()["ranks"] == ranks);
    for (const json& row : rows) {
      // 784 x 128 + 128 + 128 x 10 + 10 parameters, and for each of them a gradient and Adam's
      // two numbers; also the activations of 56 rows.
      CHECK(row["bytes_per_rank"] == 4 * 4 * 101770 + 56 * row_bytes);
      CHECK(number(row, "bytes_of_all") ==
            number(row, "ranks") * number(row, "bytes_per_rank"));
      CHECK(row["activations_shared"] == 56 / row["ranks"].get<int>() * row_bytes);
    }
  }
  check_text(4, kTrainer, "memory", "only the data is divided");
}

TEST_CASE("wrong-stream: the all-reduce uses the previous values", "[break][gpu]") {
  if (!can_run(2, kTrainer, "wrong-stream", "nothing is queued on a CPU")) return;
  for (const int ranks : {2, 4}) {
    for (const json& row : symptoms(ranks, kTrainer, "wrong-stream")) {
      CHECK(row["first_wrong"].get<int>() > 2);
      CHECK(number(row, "distance") > 0);
    }
  }
}

TEST_CASE("no-sync: the host reads before the copy has arrived", "[break][gpu]") {
  if (!can_run(2, kTrainer, "no-sync", "nothing is queued on a CPU")) return;
  for (const int ranks : {2, 4}) {
    for (const json& row : symptoms(ranks, kTrainer, "no-sync"))
      CHECK(row["stale"].get<int>() > 0);
  }
}

TEST_CASE("loss-item: the host waits for every loss that it reads", "[break][gpu]") {
  if (!can_run(1, kTrainer, "loss-item", "nothing is queued on a CPU")) return;
  for (const int ranks : {1, 4}) {
    for (const json& row : symptoms(ranks, kTrainer, "loss-item")) {
      const int often = row["waits_every_step"];
      const int seldom = row["waits_every_eighth"];
      CHECK(often - seldom == 64 - 8);
      // As advanced/gpu_step.md says, if no messages wait for copies.
      if (DIST_CUDA_EMULATED && ranks <= dist::cuda_device_count()) CHECK(seldom == 15);
      CHECK(number(row, "ms_every_eighth") > 0);
    }
  }
}

TEST_CASE("fp16-underflow: fp16 loses gradients unless the loss is scaled, and bf16 loses none",
          "[break]") {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<json> rows = symptoms(ranks, kTrainer, "fp16-underflow");
    REQUIRE(rows.size() == 5);
    CHECK(number(rows[0], "zeros") == 0);
    CHECK(number(rows[1], "zeros") == 0);
    CHECK(number(rows[2], "zeros") > 0.5);
    CHECK(number(rows[3], "zeros") < 0.05);
    CHECK(number(rows[2], "loss") > number(rows[3], "loss") + 0.1);
    CHECK(number(rows[3], "infinite") == 0);
    CHECK(number(rows[4], "infinite") > 0);
    CHECK(std::abs(number(rows[1], "smallest") / std::ldexp(1.0, -133) - 1) < 1e-8);
    CHECK(std::abs(number(rows[2], "smallest") / std::ldexp(1.0, -24) - 1) < 1e-8);
  }
  check_text(4, kTrainer, "fp16-underflow", "fp16, loss x 1024");
}
