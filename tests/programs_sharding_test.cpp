// --shard: each rank keeps a part, and the results are those of ordinary data parallelism.
#include "tests/support/training_run.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::vector<std::string> kLevels{"optimizer", "gradients", "parameters"};

// Layers whose sizes no number of ranks divides, in five buckets.
constexpr std::size_t kParameters = 23 * 17 + 17 + 17 * 11 + 11 + 11 * 5 + 5;
const std::string kJob =
    "--json --device cpu --dataset synthetic --samples 301 --layers 23,17,11,5 --classes 5 "
    "--batch-size 8 --epochs 2 --first-bucket-mb 0.0001 --bucket-cap-mb 0.0003 ";

std::string hashes(const json& final) {
  std::string all;
  for (const json& parameter : final["parameters"]) {
    all += parameter["sha256"].get<std::string>() + " ";
  }
  return all;
}

void check_close(const Training& ours, const Training& theirs, double tolerance) {
  check_losses(ours.losses, theirs.losses, tolerance);
  check_parameters(ours.final["parameters"], theirs.final["parameters"], tolerance);
}

}  // namespace

TEST_CASE("sharded parameters equal those of DDP over the ring, bit for bit", "[sharding]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string optimizer :
         {"adamw", "sgd --lr 0.1 --momentum 0.9", "sgd --lr 0.1 --clip-norm 0.3"}) {
      const std::string job = kJob + "--optimizer " + optimizer;
      const Training ddp = trained(mpirun(ranks, "ddp_training", job));
      for (const std::string& level : kLevels) {
        for (const std::string overlap : {"", " --overlap"}) {
          CAPTURE(ranks, optimizer, level, overlap);
          const Training run =
              trained(mpirun(ranks, "ddp_training", job + " --shard " + level + overlap));
          CHECK(hashes(run.final) == hashes(ddp.final));
          CHECK(run.losses == ddp.losses);
          CHECK(run.norms == ddp.norms);
          CHECK(run.final["shard"] == level);
          const bool replicas = level != "parameters";
          CHECK(run.final["replicas_identical"] == (replicas ? json(true) : json()));
        }
      }
    }
  }
}

TEST_CASE("sharded runs hold and send what the formulas say", "[sharding]") {
  for (const int ranks : {2, 3, 4, 7}) {
    const auto n = static_cast<std::size_t>(ranks);
    for (const std::string& level : kLevels) {
      CAPTURE(ranks, level);
      const json final =
          trained(mpirun(ranks, "ddp_training", kJob + "--shard " + level)).final;
      // A chunk of a bucket may have one number more than its share.
      const auto is_part = [&](const json& bytes, std::size_t numbers) {
        const auto held = bytes.get<std::size_t>();
        return held * n >= 4 * numbers && held <= 4 * (numbers / n + 2 * 5);
      };
      const json& memory = final["memory"];
      CHECK(is_part(memory["optimizer_bytes"], 2 * kParameters));
      CHECK((level == "optimizer" ? memory["gradients_bytes"] == 4 * kParameters
                                  : is_part(memory["gradients_bytes"], kParameters)));
      CHECK((level != "parameters" ? memory["parameters_bytes"] == 4 * kParameters
                                   : is_part(memory["parameters_bytes"], kParameters)));
      const double passes = level == "parameters" ? 3 : 2;
      const double least = 4 * passes * static_cast<double>(kParameters * (n - 1)) / ranks;
      CHECK(close(final["least_bytes_per_step"], least, 1e-6));
      CHECK(final["bytes_sent_per_step"].get<double>() >= least);
      CHECK(final["bytes_sent_per_step"].get<double>() <= least + 4 * passes * 5);
    }
  }
}

TEST_CASE("with other carriers or accumulation, sharded runs agree to 1e-6", "[sharding]") {
  for (const std::string flags :
       {"--backend mpi", "--algorithm auto", "--algorithm shared-memory --overlap",
        "--accumulate 3", "--accumulate 3 --overlap", "--accumulate 3 --clip-norm 0.3",
        "--backend mpi --clip-norm 0.3"}) {
    const std::string job = kJob + "--optimizer sgd --lr 0.1 " + flags;
    const Training ddp = trained(mpirun(3, "ddp_training", job));
    for (const std::string& level : kLevels) {
      CAPTURE(flags, level);
      check_close(trained(mpirun(3, "ddp_training", job + " --shard " + level)), ddp, 1e-6);
    }
  }
}

TEST_CASE("sharded runs reproduce PyTorch's", "[sharding]") {
  const json golden = json::parse(content_of(GOLDEN_DIR "/training.json"));
  std::size_t done = 0;
  for (const json& run : golden["runs"]) {
    if (run["world"] == 1) continue;
    check_golden_run(run, "--device cpu --shard " + kLevels[done++ % kLevels.size()]);
  }
  CHECK(done >= 6);
}

TEST_CASE("a sharded run's checkpoint is that of DDP, and any run can go on with it",
          "[sharding]") {
  const TemporaryFolder folder;
  const auto train = [&](int ranks, const std::string& file, const std::string& flags) {
    const CommandResult result =
        mpirun(ranks, "ddp_training", kJob + "--checkpoint " + (folder / file) + " " + flags);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return hashes(result.rows().back());
  };
  train(3, "half", "--max-steps 11");
  const std::string whole = train(3, "whole", "");
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    CAPTURE(kLevels[i]);
    train(3, kLevels[i], "--max-steps 11 --checkpoint-every 4 --shard " + kLevels[i]);
    CHECK(content_of(folder / kLevels[i]) == content_of(folder / "half"));
    const std::string other = kLevels[(i + 1) % kLevels.size()];
    CHECK(train(3, kLevels[i], "--resume --shard " + other) == whole);
    CHECK(content_of(folder / kLevels[i]) == content_of(folder / "whole"));
  }
  // On a different number of ranks, the batches differ.
  std::filesystem::copy_file(folder / "half", folder / "again");
  const std::string ddp = train(2, "half", "--resume");
  CHECK(ddp != whole);
  CHECK(train(2, "again", "--resume --shard parameters") == ddp);
}

TEST_CASE("all ranks of a sharded run skip the same steps", "[sharding]") {
  // The gradients soon overflow, but not in all ranks' parts in the same step.
  const std::string job = "--optimizer sgd --lr 1e6 --max-steps 50 --json --shard ";
  const CommandResult ddp = mpirun(3, "ddp_training", job + "none");
  for (const std::string& level : kLevels) {
    CAPTURE(level);
    const CommandResult result = mpirun(3, "ddp_training", job + level);
    CHECK(result.status == 1);
    CHECK(result.err.find("10 steps in a row had to be skipped") != std::string::npos);
    CHECK(result.rows() == ddp.rows());
  }
}

TEST_CASE("the digits' test accuracy does not depend on who holds the parameters",
          "[sharding]") {
  const std::string job = "--json --epochs 1 --max-steps 12 ";
  const Training ddp = trained(mpirun(7, "ddp_training", job));
  const Training run = trained(mpirun(7, "ddp_training", job + "--shard parameters"));
  CHECK(run.final["test_accuracy"] == ddp.final["test_accuracy"]);
}

TEST_CASE("--shard refuses what it cannot divide", "[sharding]") {
  const auto refusal = [](const std::string& flags) {
    const CommandResult result = mpirun(2, "ddp_training", "--shard gradients " + flags);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(refusal("--deterministic")
            .find("error: --shard: cannot be combined with "
                  "--deterministic") == 0);
  CHECK(refusal("--algorithm rabenseifner").find("error: --shard: needs the two halves") == 0);
}
