// Lesson 5's programs: with every backend they learn the same as PyTorch and as a single
// process, and they write the right files.
#include "02_broadcast/fingerprint.hpp"
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/support/program_checks.hpp"
#include "tests/support/training_run.hpp"

#include <fmt/core.h>

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

// The only row of single_process or ddp_by_hand.
json only_row(const CommandResult& result) {
  INFO(result.err);
  CHECK(result.status == 0);
  REQUIRE(result.rows().size() == 1);
  return result.rows()[0];
}

// The fingerprint that these programs print, of the parameters in a checkpoint. What comes
// after them, the optimizer's state, has names that begin with a letter.
std::string fingerprint_in(const std::string& file) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : dist::read_safetensors(file).tensors) {
    if (std::isdigit(name[0]) != 0) hash = dist::fingerprint(tensor.span(), hash);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

TEST_CASE("ddp_by_hand trains as one process does, and as ddp_training without buckets",
          "[lesson05][quick]") {
  const std::string flags = "--json --epochs 1 --seed 3";
  const json alone = only_row(run_command(PROGRAM_DIR "/single_process " + flags));
  CHECK(alone["test_accuracy"] > 0.9);
  CHECK(only_row(mpirun(1, "ddp_by_hand", flags)) == alone);
  const TemporaryFolder folder;
  for (const int ranks : {2, 3, 4, 8}) {
    const json by_hand = only_row(mpirun(ranks, "ddp_by_hand", flags));
    CHECK(by_hand["ranks"] == ranks);
    CHECK(by_hand["replicas_identical"] == true);
    if (ranks != 4) continue;
    const std::string without_buckets = " --device cpu --first-bucket-mb 0 --bucket-cap-mb 0";
    const json trainer =
        trained(mpirun(ranks, "ddp_training",
                       flags + without_buckets + " --checkpoint " + (folder / "model")))
            .final;
    CHECK(by_hand["fingerprint"] == fingerprint_in(folder / "model"));
    CHECK(by_hand["test_accuracy"] == trainer["test_accuracy"]);
  }
}

TEST_CASE("ddp_by_hand without its broadcast or without its all-reduce is reported",
          "[lesson05][quick]") {
  for (const std::string call : {"broadcast_tree", "all_reduce_ring"}) {
    const CommandResult result =
        mpirun(2, "../tests/without_" + call, "--json --epochs 1", kNoGrace);
    INFO(call << "\n" << result.err);
    CHECK(result.status == 1);
    CHECK(result.says("WRONG: the replicas differ\n"));
    REQUIRE(result.rows().size() == 1);
    CHECK(result.rows()[0]["replicas_identical"] == false);
  }
}

TEST_CASE("four ranks learn the digits with the defaults", "[lesson05][quick]") {
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

TEST_CASE("each epoch has its own number, whatever is checked or saved at its end",
          "[lesson05][quick]") {
  const TemporaryFolder folder;
  for (const std::string at_end :
       {"--check-replicas 32", "--checkpoint-every 32 --checkpoint X"}) {
    const CommandResult run =
        mpirun_in(folder, 4, "ddp_training", "--layers 784,4,10 --epochs 3 " + at_end);
    INFO(run.out << run.err);
    for (const std::string number : {"1  step   32", "2  step   64", "3  step   96"}) {
      CHECK(run.says("  epoch " + number + "/96  loss "));
    }
  }
}

TEST_CASE("training runs of real PyTorch DDP are reproduced", "[lesson05][quick]") {
  const json golden = json::parse(content_of(GOLDEN_DIR "/training.json"));
  CHECK(golden["runs"].size() == 15);
  for (const json& run : golden["runs"]) check_golden_run(run, "--device cpu");
}

TEST_CASE("lesson 5's README shows the losses of its job, and PyTorch's", "[lesson05]") {
  const std::string readme = content_of(SOURCE_DIR "/05_ddp_training/advanced/optimizers.md");
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

TEST_CASE("each row contains the learning rate of its step", "[lesson05]") {
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
  CHECK(trained(mpirun(1, "ddp_training", warm)).rates == from_zero);
  CHECK(trained({0, content_of(folder / "steps.jsonl"), ""}).rates == from_zero);

  // Each row shows the rate that its step used: where the rate is 0, the loss over the whole
  // set stays the same.
  const std::string whole =
      "--json --dataset synthetic --samples 16 --layers 6,5,3 --classes 3 --batch-size 16 "
      "--max-steps 3 --warmup-steps 2 --lr 0.1 --optimizer sgd --no-shuffle";
  const Training run = trained(mpirun(1, "ddp_training", whole));
  CHECK(run.losses[1] == run.losses[0]);
  CHECK(run.losses[2] < run.losses[1]);
}

TEST_CASE("all backends, algorithms and sizes of buckets train the same model", "[lesson05]") {
  const std::string common =
      "--json --dataset synthetic --samples 96 --layers 12,9,4 --classes 4 --epochs 2 "
      "--batch-size 8 ";
  const Training ours = trained(mpirun(3, "ddp_training", common));
  for (const std::string flags :
       {"--backend mpi", "--algorithm naive", "--algorithm ring",
        "--algorithm recursive-doubling", "--algorithm mpi", "--overlap", "--no-overlap",
        "--bucket-cap-mb 0.0001 --first-bucket-mb 0", "--overlap --bucket-cap-mb 0",
        "--batch-size 4 --accumulate 2", "--batch-size 2 --accumulate 4 --overlap"}) {
    const Training other = trained(mpirun(3, "ddp_training", common + flags));
    INFO(flags);
    REQUIRE(other.losses.size() == ours.losses.size());
    for (std::size_t i = 0; i < ours.losses.size(); ++i) {
      CHECK(close(other.losses[i], ours.losses[i]));
    }
  }
}

TEST_CASE("training on MNIST's own files reaches 94 % in 10 epochs", "[lesson05]") {
  const std::string folder = SOURCE_DIR "/../shared/data/mnist-10k";
  if (!std::filesystem::is_directory(folder)) {
    WARN("skipped: no MNIST files at " << folder);
    return;
  }
  const Training run =
      trained(mpirun(4, "ddp_training", "--json --dataset idx --epochs 10 --data " + folder));
  CHECK(run.final["test_accuracy"].get<double>() >= 0.94);
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

TEST_CASE("the traffic of a step is counted and shown next to the minimum", "[lesson05]") {
  // The only bucket has 111 numbers, or 444 bytes. In a ring of 3 ranks, each sends 2 (3 - 1)
  // chunks of 37.
  const std::string flags =
      "--json --device cpu --dataset synthetic --samples 96 --layers 8,9,3 --classes 3 "
      "--batch-size 8 --max-steps 2 ";
  const auto final = [&](const std::string& more) {
    return trained(mpirun(3, "ddp_training", flags + more)).final;
  };
  const nlohmann::json ring = final("--algorithm ring");
  CHECK(ring["bytes_sent_per_step"] == 592);
  CHECK(ring["least_bytes_per_step"] == 592);
  CHECK(final("--algorithm ring --overlap")["bytes_sent_per_step"] == 592);
  CHECK(final("--algorithm naive")["bytes_sent_per_step"] == 2 * 444);  // rank 0 to ranks 1, 2
  CHECK(final("--backend mpi")["bytes_sent_per_step"].is_null());
}
