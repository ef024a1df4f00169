// The trainer with each of its features, on whatever GPUs there are: it must learn what it
// learns on the CPU. On a machine without a GPU, these tests compare the default device with
// itself.
#include "tests/support/catch.hpp"
#include "tests/support/training_run.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

// 203 samples divide evenly by no number of ranks or rows, so the last batches are short.
const std::string kOddJob =
    "--json --dataset synthetic --samples 203 --classes 5 --layers 20,33,17,5 --epochs 3 ";
const std::string kOddBatches =
    kOddJob + "--batch-size 7 --first-bucket-mb 0.001 --bucket-cap-mb 0.002 ";

}  // namespace

TEST_CASE("the default run is verified on 1 to 4 ranks, whatever the number of GPUs",
          "[features]") {
  for (const int ranks : {1, 2, 3, 4}) {
    const CommandResult result = mpirun(ranks, "ddp_training", "");
    INFO(ranks << " ranks\n" << result.out << result.err);
    CHECK(result.status == 0);
    CHECK(result.says("verified: the same parameters, bit for bit, on every rank"));
  }
}

TEST_CASE("each of the trainer's features learns on a GPU what it learns on a CPU",
          "[features]") {
  for (const std::string feature :
       {"", "--no-graph", "--backend mpi", "--backend ours --overlap", "--accumulate 3",
        "--clip-norm 0.5", "--shard optimizer", "--shard gradients", "--shard parameters",
        "--shard parameters --accumulate 2 --clip-norm 0.5", "--loader-drop-last",
        "--check-replicas 3", "--batch-size 1", "--batch-size 67", "--layers 20,5",
        "--layers 20,1,3,5", "--layers 20,127,5", "--optimizer sgd --momentum 0.9 --nesterov",
        "--optimizer adamw --warmup-steps 5 --scale-lr"}) {
    const std::string flags = kOddBatches + feature;
    const Training run = trained(mpirun(3, "ddp_training", flags));
    CAPTURE(feature);
    CHECK(run.final["replicas_identical"] != false);  // null if no rank has a replica
    check_losses(run.losses, trained(mpirun(3, "ddp_training", flags + " --device cpu")).losses,
                 1e-4);
  }
  for (const int ranks : {1, 2}) {
    const std::string flags = kOddJob + "--deterministic --global-batch 56";
    CHECK(trained(mpirun(ranks, "ddp_training", flags)).final["parameters"] ==
          trained(mpirun(4, "ddp_training", flags)).final["parameters"]);
  }
}

TEST_CASE("a checkpoint in mid-epoch continues to the same bits, and can be evaluated",
          "[features]") {
  for (const std::string feature : {"", "--accumulate 3", "--shard parameters"}) {
    const TemporaryFolder folder;
    const std::string flags = kOddBatches + feature + " --checkpoint " + (folder / "x");
    const Training whole = trained(mpirun(3, "ddp_training", flags));
    REQUIRE(mpirun(3, "ddp_training", flags + " --max-steps 5").status == 0);
    const CommandResult rest = mpirun(3, "ddp_training", flags + " --resume");
    CAPTURE(feature, rest.err);
    REQUIRE(rest.status == 0);
    CHECK(rest.rows().back()["parameters"] == whole.final["parameters"]);
  }
  const TemporaryFolder folder;
  const std::string file = "--checkpoint " + (folder / "x");
  const std::string job = "--json --layers 784,20,10 --epochs 2 " + file;
  const Training run = trained(mpirun(3, "ddp_training", job));
  const CommandResult tested = mpirun(
      2, "ddp_training", "--json --evaluate --layers 784,20,10 --init " + (folder / "x"));
  INFO(tested.out << tested.err);
  CHECK(tested.status == 0);
  CHECK(tested.rows().back()["test_accuracy"] == run.final["test_accuracy"]);
}
