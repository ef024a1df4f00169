// Lesson 5's experiments. Each judges itself: it ends with status 0 only if its numbers show
// the symptom.
#include "common/device.hpp"
#include "tests/support/broken_run.hpp"

#include <fmt/core.h>

#include <string>
#include <vector>

using namespace dist::test;

namespace {

const std::string kTrainer = "ddp_training";

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

TEST_CASE("each experiment of lesson 5 shows its symptom, in the words of its file",
          "[break]") {
  struct Case {
    std::string name;
    std::vector<int> ranks;
    std::string line;
  };
  for (const auto& [name, counts, line] : std::vector<Case>{
           {"no-all-reduce", {2, 4, 7}, "parted after step 1, first in 0.weight of ranks 0, 1"},
           {"skip-parameter", {2, 3, 4}, "parted after step 1, first in 2.bias of rank"},
           {"skip-parameter", {4}, "all other parameters: equal on all ranks, bit for bit"},
           {"gradient-noise", {2, 4, 7}, "the replicas are equal, bit for bit"},
           {"update-noise", {2, 4, 7}, "parted after step 1"},
           {"average-parameters", {2, 4}, "below 1e-05 is rounding"},
           {"all-save", {2, 3, 4}, "damaged: its checksum does not match its content"},
           {"rank0-loss", {2, 4, 7}, "it moved in the opposite direction"},
           {"lr", {2, 4}, "times the rate: much better in"},
           {"no-wait", {2, 3, 4}, "parted after step 1, first in 0.weight of rank"},
           {"iallreduce", {2, 4}, ""},
           {"memory", {2, 4, 7}, "only the data is divided"},
           {"fp16-underflow", {2, 3, 4}, "fp16, loss x 1024"}}) {
    for (const int ranks : counts) check_text(ranks, kTrainer, name, line);
  }
}

TEST_CASE("memory: a rank holds the parameters four times, and its activations", "[break]") {
  // 784 x 128 + 128 + 128 x 10 + 10 parameters, and for each of them a gradient and Adam's two
  // numbers. Per row of the batch, the activations and their gradients.
  const double bytes = 4 * 4 * 101770 + 56 * 4 * 2 * 138;
  check_text(4, kTrainer, "memory", fmt::format(" {:.1f}  ", bytes / 1024));
  check_text(4, kTrainer, "memory", fmt::format(" {:.1f}  ", 4 * bytes / 1024));
}

// No times are checked: the program's verdict must follow from its own measurements.
TEST_CASE("tiny-model: predicts, then measures, and judges by the measurement", "[break]") {
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, kTrainer, "tiny-model");
    INFO(result.out << result.err);
    const std::string words = fmt::format("us per step on {} ranks, a speed-up of ", ranks);
    const std::size_t at = result.out.find(words);
    REQUIRE(at != std::string::npos);
    CHECK(result.out.find("predicted: ") < at);
    const double speed_up = std::stod(result.out.substr(at + words.size()));
    if (speed_up < 0.995) CHECK(result.status == 0);
    if (speed_up > 1.005) CHECK(result.status == 1);
  }
}

TEST_CASE("wrong-stream and no-sync: queued work is not finished work", "[break][gpu]") {
  for (const std::string name : {"wrong-stream", "no-sync"}) {
    if (!can_run(2, kTrainer, name, "nothing is queued on a CPU")) continue;
    for (const int ranks : {2, 4}) check_text(ranks, kTrainer, name);
  }
}

TEST_CASE("loss-item: the host waits for every loss that it reads", "[break][gpu]") {
  if (!can_run(1, kTrainer, "loss-item", "nothing is queued on a CPU")) return;
  for (const int ranks : {1, 4}) {
    // As advanced/gpu_step.md says, if no messages wait for copies.
    const bool known = DIST_CUDA_EMULATED && ranks <= dist::cuda_device_count();
    check_text(ranks, kTrainer, "loss-item",
               known ? "loss read in  8 of 64 steps:  15 waits" : "");
  }
}
