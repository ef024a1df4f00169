// Fault 3: a run is resumed with a different number of ranks.
#include "tests/faults/faults.hpp"

#include <string>
#include <tuple>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("on a different number of ranks, a run continues at the same sample, with a note",
          "[fault03]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 --accumulate "
      "2 " +
      files(folder, "run");
  // 3001 samples make 751 per rank: 58 batches of 13, in 29 steps, of which 10 are done.
  trained(mpirun(4, "ddp_training", "--json --max-steps 10 " + flags));
  const CommandResult resumed = mpirun(2, "ddp_training", flags + "--epochs 1 --resume");
  INFO(resumed.out << resumed.err);
  CHECK(resumed.status == 0);
  CHECK(resumed.says(
      "2 ranks instead of 4: different batches from here on, 52 samples per step instead "
      "of 104"));
  // 3001 - 1040 samples are left, which make 981 per rank: 76 batches in 38 steps.
  const std::string metrics = content_of(folder / "run.jsonl");
  CHECK(lines(metrics) == 48);
  CHECK(metrics.find("{\"step\":47,\"epoch\":0,") != std::string::npos);
}

TEST_CASE("if too few samples of an epoch are left, a run continues with the next epoch",
          "[fault03]") {
  const TemporaryFolder folder;
  const std::string file = "--checkpoint " + (folder / "x") + " ";
  // With 1000 samples on 2 ranks, 40 are left after 30 of 31 steps: 10 for each of 4 ranks,
  // which is less than a batch. Two more epochs of 15 steps follow. With 34 samples, 2 are left
  // after the first 32: too few for 4 ranks. Two more epochs of one step follow.
  for (const auto& [flags, before, all] :
       {std::tuple{"--samples 1000 --batch-size 16 --loader-drop-last ", 30, 60},
        std::tuple{"--samples 34 --batch-size 16 --drop-last ", 1, 3}}) {
    INFO(flags);
    const std::string run =
        std::string("--json --dataset synthetic --layers 6,5,10 ") + flags + file;
    trained(
        mpirun(2, "ddp_training", run + "--epochs 3 --max-steps " + std::to_string(before)));
    const CommandResult resumed = mpirun(4, "ddp_training", run + "--epochs 3 --resume");
    REQUIRE(resumed.status == 0);
    CHECK(resumed.rows().back()["steps"] == all);
  }
}

TEST_CASE("a run saved on any number of ranks continues on any other and says what changes",
          "[fault03]") {
  const std::vector<int> all{1, 2, 3, 4, 8};
  const std::vector<int> some{1, 3, 8};
  const auto& counts = times(0, 1) == 0 ? some : all;
  const std::string job = "--dataset synthetic --samples 400 --layers 12,9,10 --epochs 2 ";
  int pairs = 0;
  int exact = 0;
  for (const bool deterministic : {false, true}) {
    const std::string run =
        job + (deterministic ? "--deterministic --global-batch 40 " : "--batch-size 5 ");
    const json whole = trained(mpirun(2, "ddp_training", run + "--json")).final;
    for (const int before : counts) {
      for (const int after : counts) {
        CAPTURE(before, after, deterministic);
        if (deterministic && (before == 3 || after == 3)) continue;  // 8 shards
        const TemporaryFolder folder;
        const std::string flags = run + "--checkpoint " + (folder / "x") + " ";
        REQUIRE(mpirun(before, "ddp_training", flags + "--max-steps 7").status == 0);
        const CommandResult resumed = mpirun(after, "ddp_training", flags + "--resume");
        REQUIRE(resumed.status == 0);
        const bool told =
            resumed.says(std::to_string(after) + " ranks instead of " + std::to_string(before));
        CHECK(told == (before != after && !deterministic));
        const json final =
            trained(mpirun(after, "ddp_training", flags + "--resume --json")).final;
        CHECK(final["replicas_identical"] == true);
        if (deterministic) CHECK(final["parameters"] == whole["parameters"]);
        ++(deterministic ? exact : pairs);
      }
    }
  }
  figure(3, std::to_string(pairs) + " pairs of rank counts continue; " + std::to_string(exact) +
                " with --deterministic, bit for bit");
}
