// ddp_training --deterministic, as a reader starts it: the same trajectory on 1, 2, 4 and 8
// ranks, and an error where that is impossible.
#include "tests/support/catch.hpp"
#include "tests/support/program_checks.hpp"
#include "tests/support/run_command.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace dist::test;

// The output that must not depend on the number of ranks: the rows of --json, except that only
// the steps, the parameters and the accuracy of the last row count.
struct Run {
  std::vector<std::string> steps;
  std::string final;
  bool operator==(const Run&) const = default;
};

Run run(int ranks, const std::string& flags) {
  const CommandResult result = mpirun(ranks, "ddp_training", "--json " + flags);
  INFO(ranks << " ranks, " << flags << "\n" << result.err);
  REQUIRE(result.status == 0);
  Run kept;
  for (const nlohmann::json& row : result.rows()) {
    if (row.contains("final")) {
      const nlohmann::json same{{"steps", row["steps"]},
                                {"parameters", row["parameters"]},
                                {"test_accuracy", row["test_accuracy"]}};
      kept.final = same.dump();
      CHECK(row["ranks"] == ranks);
      CHECK(row["replicas_identical"] == true);
    } else {
      kept.steps.push_back(row.dump());
    }
  }
  return kept;
}

const std::string kJob =
    "--dataset synthetic --samples 1003 --layers 20,33,17,5 --classes 5 --epochs 2 ";

}  // namespace

TEST_CASE("--deterministic: one trajectory on 1, 2, 4 and 8 ranks", "[lesson05]") {
  // Of 1003 samples, each virtual rank gets 126 (padded) or 125. With batches of 40 = 8 x 5,
  // the last step of a padded epoch has one row for each virtual rank. With batches of 24 = 8 x
  // 3 and --drop-last, the last step has two rows for each.
  const std::map<std::string, std::size_t> jobs{
      {"--global-batch 40", 2 * 26},
      {"--global-batch 40 --drop-last", 2 * 25},
      {"--global-batch 40 --loader-drop-last --optimizer sgd --momentum 0.9", 2 * 25},
      {"--global-batch 24 --optimizer adamw --warmup-steps 5", 2 * 42},
      {"--global-batch 24 --drop-last --optimizer sgd --momentum 0.9 --nesterov", 2 * 42},
      {"--global-batch 24 --drop-last --loader-drop-last --no-shuffle", 2 * 41},
      {"--global-batch 8 --max-steps 30", 30}};
  for (const auto& [flags, steps] : jobs) {
    const std::string all = kJob + flags + " --deterministic";
    const Run alone = run(1, all);
    INFO(all);
    CHECK(alone.steps.size() == steps);
    for (const int ranks : {2, 4, 8}) {
      INFO(ranks << " ranks");
      CHECK(run(ranks, all) == alone);
    }
    // Without the flag the bits differ, which shows that the checks above can fail.
    if (flags == "--global-batch 40") {
      CHECK(run(1, kJob + flags) != run(4, kJob + flags));
    }
  }
}

TEST_CASE("--deterministic: a run stopped on 4 ranks continues bit for bit on any number",
          "[lesson05][quick]") {
  const TemporaryFolder folder;
  const std::string job = kJob + "--global-batch 40 --deterministic ";
  const Run whole = run(2, job);
  for (const int ranks : {1, 2, 4, 8}) {
    CAPTURE(ranks);
    const std::string file = "--checkpoint " + (folder / "run.safetensors") + " ";
    const Run begun = run(4, job + "--max-steps 17 " + file);  // in mid-epoch
    const Run rest = run(ranks, job + "--resume " + file);
    std::vector<std::string> steps = begun.steps;
    steps.insert(steps.end(), rest.steps.begin(), rest.steps.end());
    CHECK(steps == whole.steps);
    CHECK(rest.final == whole.final);
  }
}

TEST_CASE("lesson 5's README shows what --deterministic is for", "[lesson05]") {
  // When training on the digits, with large matrix products, the last bits depend on the
  // processor. After 31 steps of Adam, those bits can change the loss by a thousandth.
  const std::string readme = content_of(SOURCE_DIR "/05_ddp_training/advanced/determinism.md");
  const std::string before = "mpirun -np $n build/bin/ddp_training --json ";
  const std::size_t begin = readme.find(before) + before.size();
  REQUIRE(begin > before.size());
  const std::string flags = readme.substr(begin, readme.find(" |", begin) - begin);
  std::map<int, std::pair<double, double>> shown;
  std::istringstream text(readme);
  for (std::string line; std::getline(text, line);) {
    int ranks = 0;
    double usual = 0, fixed = 0;
    char end = 0;
    if (std::sscanf(line.c_str(), "| %d | %lf | %lf %c", &ranks, &usual, &fixed, &end) == 4 &&
        std::ranges::count(line, '|') == 4) {
      shown[ranks] = {usual, fixed};
    }
  }
  REQUIRE(shown.size() == 4);
  const Run alone = run(1, flags + " --deterministic");
  for (const auto& [ranks, losses] : shown) {
    INFO(ranks << " ranks");
    CHECK(run(ranks, flags + " --deterministic") == alone);
    CHECK(losses.second == shown.at(1).second);
    const Run usual = run(ranks, flags);
    const auto last = [](const Run& kept) {
      return nlohmann::json::parse(kept.steps.at(31))["loss"].get<double>();
    };
    CHECK(close(last(usual), losses.first, 5e-3));
    CHECK(close(last(alone), losses.second, 5e-3));
    CHECK(usual != alone);
  }
}

TEST_CASE("--deterministic equals data parallelism on 8 ranks, on 1, 2, 4 and 8 processes",
          "[lesson05]") {
  // --batch-size counts per process, so 8 on each of 8 ranks corresponds to 64 on one.
  // --scale-lr scales the rate for 8 ranks.
  const std::string scaled = kJob + "--max-steps 10 --deterministic --scale-lr ";
  const Training one = trained(mpirun(1, "ddp_training", "--json --batch-size 64 " + scaled));
  const Training four = trained(mpirun(4, "ddp_training", "--json --batch-size 16 " + scaled));
  CHECK(one.rates == std::vector<double>(10, 0.008));
  CHECK(four.rates == one.rates);
  CHECK(four.losses == one.losses);
  // The batches and the results are those of ordinary data parallelism on 8 ranks.
  const std::string flags = kJob + "--json --global-batch 40 --optimizer sgd --lr 0.1 ";
  const Training usual = trained(mpirun(8, "ddp_training", flags));
  const Training fixed = trained(mpirun(2, "ddp_training", flags + "--deterministic"));
  check_losses(fixed.losses, usual.losses);
  CHECK(fixed.final["algorithm"] == "fixed-tree");
  CHECK(fixed.final["backend"] == "ours");
  CHECK(fixed.final["exposed_comm_ms"] == fixed.final["comm_ms"]);
}

TEST_CASE("--deterministic says what it costs", "[lesson05]") {
  const CommandResult result =
      mpirun(2, "ddp_training", kJob + "--global-batch 40 --max-steps 3 --deterministic");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(
      result.says("deterministic: 8 virtual ranks, 4 on each process; matrix products of 5 "
                  "rows instead of 20; 2 more gradient buffers, 0.0 MiB"));
}

TEST_CASE("--deterministic is refused if it is impossible", "[lesson05]") {
  struct Refusal {
    int ranks;
    std::string flags, message;
  };
  const std::vector<Refusal> refusals{
      {3, "", "--deterministic: the 8 virtual ranks need 1, 2, 4 or 8 processes, not 3"},
      {7, "", "--deterministic: the 8 virtual ranks need 1, 2, 4 or 8 processes, not 7"},
      {16, "", "--deterministic: the 8 virtual ranks need 1, 2, 4 or 8 processes, not 16"},
      {2, "--batch-size 6",
       "--deterministic: a batch of 12 over all ranks (--batch-size times ranks) is not "
       "divisible by 8"},
      {2, "--global-batch 20",
       "--deterministic: a batch of 20 over all ranks (--global-batch) is not divisible by 8"},
      {4, "--global-batch 30", "--global-batch: 30 is not divisible by 4 ranks"},
      {2, "--backend mpi",
       "--deterministic: adds gradients in its own fixed tree and cannot use --backend mpi"},
      {2, "--backend nccl",
       "--deterministic: adds gradients in its own fixed tree and cannot use --backend nccl"},
      {2, "--algorithm ring",
       "--deterministic: adds all gradients at once in its own fixed tree and cannot use "
       "--algorithm"},
      {2, "--algorithm auto", "--deterministic: adds all gradients at once"},
      {2, "--bucket-cap-mb 4",
       "--deterministic: adds all gradients at once in its own fixed tree and cannot use "
       "--bucket-cap-mb"},
      {2, "--overlap",
       "--deterministic: sends only after backward, so it cannot use --overlap"},
      {2, "--accumulate 2", "--deterministic: cannot be combined with --accumulate above 1"},
      {2, "--threads 2", "--deterministic: needs --threads 1"},
      {2, "--dataset synthetic --samples 7 --batch-size 4",
       "--dataset: 7 samples are too few for 8 virtual ranks"},
      {2, "--dataset synthetic --samples 30 --batch-size 20 --loader-drop-last",
       "--loader-drop-last: leaves no batch, because a rank has only 4 samples"}};
  for (const auto& [ranks, flags, message] : refusals) {
    check_refused("ddp_training", "--json --deterministic " + flags, message, ranks);
  }
  // The default values are accepted when given explicitly.
  for (const std::string flags :
       {"--backend ours", "--backend auto", "--no-overlap", "--accumulate 1", "--threads 1"}) {
    INFO(flags);
    CHECK(mpirun(2, "ddp_training",
                 kJob + "--json --deterministic --global-batch 40 --max-steps 2 " + flags)
              .status == 0);
  }
}
