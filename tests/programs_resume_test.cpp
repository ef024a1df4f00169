// ddp_training interrupted, and going on: killed, asked to stop, started again otherwise.
#include "tests/support/catch.hpp"
#include "tests/support/program_checks.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

// Uneven batches, two of them per step. Alone it would not end before it is interrupted.
const std::string kRun =
    "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 --accumulate 2 "
    "--max-steps 1000000 ";

std::string files(const TemporaryFolder& folder, const std::string& name) {
  return "--checkpoint " + (folder / (name + ".st")) + " --metrics " +
         (folder / (name + ".jsonl")) + " ";
}

// Starts ddp_training, waits until it has written so many lines of metrics, and then runs
// `action`, which finds the process of mpirun in $mpirun and those of the ranks in $ranks. The
// status is mpirun's.
CommandResult interrupted(int ranks, const std::string& flags, const std::string& metrics,
                          int lines, const std::string& action) {
  return run_command(
      "timeout 120 " MPIEXEC " -np " + std::to_string(ranks) +
      " " PROGRAM_DIR "/ddp_training " + flags + " & t=$!; until [ -e " + metrics +
      " ] && [ $(wc -l <" + metrics + ") -ge " + std::to_string(lines) +
      " ] || ! kill -0 $t; do sleep 0.02; done; mpirun=$(cat /proc/$t/task/$t/children); "
      "set -- $(cat /proc/${mpirun% }/task/${mpirun% }/children); ranks=\"$*\"; last=$" +
      std::to_string(ranks) + "; " + action + "; wait $t");
}

// Goes on with the run in the files "cut" until some steps after it was interrupted, and
// compares it with one that was never interrupted.
void check_that_it_goes_on(const TemporaryFolder& folder, int ranks, const std::string& flags) {
  const std::size_t steps =
      static_cast<std::size_t>(lines(content_of(folder / "cut.jsonl"))) + 40;
  const std::string until = flags + "--json --max-steps " + std::to_string(steps) + " ";
  const CommandResult resumed =
      mpirun(ranks, "ddp_training", until + files(folder, "cut") + "--resume");
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  const json whole =
      trained(mpirun(ranks, "ddp_training", until + files(folder, "whole"))).final;
  const json final = resumed.rows().back();
  CHECK(final["steps"] == steps);
  CHECK(final["parameters"] == whole["parameters"]);
  const bool same_file =  // the optimizer included
      content_of(folder / "cut.st") == content_of(folder / "whole.st");
  CHECK(same_file);
  CHECK(content_of(folder / "cut.jsonl") == content_of(folder / "whole.jsonl"));
  for (const char* name : {"cut.st", "cut.jsonl", "whole.st", "whole.jsonl"}) {
    std::filesystem::remove(folder / name);
  }
}

}  // namespace

TEST_CASE("killed in mid-run and resumed, a run ends with the same bits", "[lesson05][quick]") {
  const TemporaryFolder folder;
  for (const std::string& optimizer :
       {std::string("--optimizer adam "), std::string("--optimizer sgd --momentum 0.9 ")}) {
    INFO(optimizer);
    const std::string flags = kRun + optimizer + "--checkpoint-every 7 ";
    const CommandResult killed =
        interrupted(4, flags + files(folder, "cut"), folder / "cut.jsonl", 40, "kill -9 $last");
    CHECK(killed.status == 137);
    check_that_it_goes_on(folder, 4, flags);
  }
}

TEST_CASE("asked to stop by a signal, a run leaves with 75 and can go on", "[lesson05]") {
  const TemporaryFolder folder;
  for (const std::string& signal : {std::string("kill -USR1 $mpirun"),  // mpirun passes it on
                                    std::string("kill -TERM $last")}) {
    INFO(signal);
    const CommandResult stopped = interrupted(3, kRun + files(folder, "cut") + "--json",
                                              folder / "cut.jsonl", 20, signal);
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    const json row = stopped.rows().back();
    CHECK(row["stopped"] == true);
    CHECK(row["steps"] == lines(content_of(folder / "cut.jsonl")));
    check_that_it_goes_on(folder, 3, kRun);
  }
  // Without a checkpoint nothing could go on: the signal ends the run as it ends any program.
  const CommandResult ended = interrupted(3, kRun + "--metrics " + (folder / "m.jsonl"),
                                          folder / "m.jsonl", 20, "kill -TERM $last");
  CHECK(ended.status != 75);
  CHECK(ended.status != 0);
}

TEST_CASE("on other ranks a run goes on from the same sample, and says so", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 --accumulate "
      "2 " +
      files(folder, "run");
  // 3001 samples: 751 per rank in batches of 13 are 58 batches, so 29 steps; 10 are done.
  trained(mpirun(4, "ddp_training", "--json --max-steps 10 " + flags));
  const CommandResult resumed = mpirun(2, "ddp_training", flags + "--epochs 1 --resume");
  INFO(resumed.out << resumed.err);
  CHECK(resumed.status == 0);
  CHECK(
      resumed.says("2 ranks instead of 4: other batches from here, 52 samples per step instead "
                   "of 104"));
  // 3001 - 1040 samples are left, 981 per rank: 76 batches, so 38 steps.
  const std::string metrics = content_of(folder / "run.jsonl");
  CHECK(lines(metrics) == 48);
  CHECK(metrics.find("{\"step\":47,\"epoch\":0,") != std::string::npos);
}

TEST_CASE("a finished run is not trained further; more epochs are", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string flags = "--max-steps 12 " + files(folder, "run");
  const json final = trained(mpirun(2, "ddp_training", "--json " + flags)).final;
  const std::string before = content_of(folder / "run.st");
  const CommandResult again = mpirun(2, "ddp_training", "--json --resume " + flags);
  INFO(again.out << again.err);
  REQUIRE(again.status == 0);
  REQUIRE(again.rows().size() == 1);
  CHECK(again.rows()[0]["steps"] == 12);
  CHECK(again.rows()[0]["parameters"] == final["parameters"]);
  CHECK(again.rows()[0]["test_accuracy"] == final["test_accuracy"]);
  CHECK(content_of(folder / "run.st") == before);
  CHECK(lines(content_of(folder / "run.jsonl")) == 12);

  // The same parameters, tested by other numbers of ranks, and by none.
  for (const int ranks : {1, 3}) {
    const CommandResult tested =
        mpirun(ranks, "ddp_training", "--json --evaluate --init " + (folder / "run.st"));
    REQUIRE(tested.rows().size() == 1);
    CHECK(tested.rows()[0]["test_accuracy"] == final["test_accuracy"]);
  }
  const CommandResult alone = run_command(
      PROGRAM_DIR "/single_process --json --evaluate --init " + (folder / "run.st"));
  REQUIRE(alone.rows().size() == 1);
  CHECK(alone.rows()[0]["test_accuracy"] == final["test_accuracy"]);
}

TEST_CASE("one process goes on from its checkpoint, too", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string flags =
      "--dataset synthetic --samples 301 --layers 8,9,10 --batch-size 16 --epochs 3 ";
  const std::string program = PROGRAM_DIR "/single_process ";
  CHECK(run_command(program + flags + files(folder, "whole")).status == 0);
  CHECK(run_command(program + "--max-steps 25 " + flags + files(folder, "cut")).status == 0);
  CHECK(run_command(program + "--resume " + flags + files(folder, "cut")).status == 0);
  CHECK(content_of(folder / "cut.jsonl") == content_of(folder / "whole.jsonl"));
  const bool same_file = content_of(folder / "cut.st") == content_of(folder / "whole.st");
  CHECK(same_file);
}

TEST_CASE("what cannot be gone on from is refused, and nothing is touched", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string base = "--dataset synthetic --samples 64 --layers 6,5,10 --batch-size 4 ";
  const std::string flags = base + files(folder, "run");
  trained(mpirun(2, "ddp_training", "--json --max-steps 3 " + flags));
  const std::string checkpoint = content_of(folder / "run.st");
  const std::string metrics = content_of(folder / "run.jsonl");
  std::ofstream(folder / "cut.st", std::ios::binary) << checkpoint.substr(0, 500);
  std::string flipped = checkpoint;
  flipped[flipped.size() - 20] ^= 4;
  std::ofstream(folder / "flipped.st", std::ios::binary) << flipped;

  const auto refused = [](const std::string& more, const std::string& words) {
    check_refused("ddp_training", more, words, 2);
  };
  refused("--resume " + base, "--resume: needs --checkpoint");
  refused(base + "--resume --checkpoint " + (folder / "none.st"),
          "--resume: there is no file " + (folder / "none.st"));
  refused(base + "--resume --checkpoint " + (folder / "cut.st"),
          "--resume: " + (folder / "cut.st"));
  refused(base + "--resume --checkpoint " + (folder / "flipped.st"),
          "--resume: " + (folder / "flipped.st") + ": damaged");
  refused(flags + "--resume --lr 0.5", "--resume: --lr: 0.5, but " + (folder / "run.st"));
  refused(flags + "--resume --seed 3", "--resume: --seed: 3");
  refused(flags + "--resume --samples 63", "--resume: --samples: 63");
  refused(flags + "--resume --batch-size 5", "--resume: samples per step: 10");
  refused(flags + "--resume --optimizer sgd", "--resume: --lr: 0.01");
  refused(flags + "--resume --layers 6,7,10",
          "--resume: " + (folder / "run.st") + ": 0.weight is");
  refused(flags + "--resume --init " + (folder / "run.st"), "--init: and --resume exclude");
  refused(base + "--init " + (folder / "none.st"), "--init: there is no file");
  refused(base + "--init " + (folder / "flipped.st"), "--init: " + (folder / "flipped.st"));
  refused("--evaluate", "--evaluate: needs the parameters of --init");
  refused(base + "--evaluate --init " + (folder / "run.st"), "--evaluate: the synthetic data");
  refused(base + "--check-replicas -1", "--check-replicas: -1 is not between");
  CHECK(content_of(folder / "run.jsonl") == metrics);
  const bool untouched = content_of(folder / "run.st") == checkpoint;
  CHECK(untouched);
}

TEST_CASE("ranks that are not in the same run are told apart at the start", "[lesson05]") {
  const TemporaryFolder folder;
  const std::string program = PROGRAM_DIR "/ddp_training ";
  const auto refused = [&](const std::string& first, const std::string& second,
                           const std::string& words) {
    INFO(second);
    const CommandResult result =
        run_command(kNoGrace + "timeout 120 " MPIEXEC " -np 2 " + first + " : -np 1 " + second);
    INFO(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("error: " + words) == 0);
  };
  refused(program, program + "--lr 0.5", "--lr: 0.001 on rank 0, but 0.5 on rank 2");
  refused(program, program + "--checkpoint " + (folder / "x"),
          "--checkpoint: nothing on rank 0, but " + (folder / "x") + " on rank 2");
  refused(program, program + "--no-shuffle", "--shuffle: yes on rank 0, but no on rank 2");
  // Yesterday's program: one byte more, and it would run all the same. It lies beside today's,
  // because it finds the watch by its own place.
  const std::string old = PROGRAM_DIR "/yesterdays_ddp_training";
  std::filesystem::remove(old);
  std::filesystem::copy_file(PROGRAM_DIR "/ddp_training", old);
  std::ofstream(old, std::ios::binary | std::ios::app) << '\n';
  refused(program, old, "the program's file: ");
  std::filesystem::remove(old);
  // One pixel.
  const auto write_digits = [&](const std::string& name, std::uint8_t pixel) {
    std::filesystem::create_directory(folder / name);
    std::string images("\0\0\x08\x03\0\0\0\x14\0\0\0\x02\0\0\0\x02", 16);
    images += std::string(80, '\x05');
    images.back() = static_cast<char>(pixel);
    std::string labels("\0\0\x08\x01\0\0\0\x14", 8);
    for (int i = 0; i < 20; ++i) labels += static_cast<char>(i % 3);
    std::ofstream(folder / (name + "/x-images-idx3-ubyte"), std::ios::binary) << images;
    std::ofstream(folder / (name + "/x-labels-idx1-ubyte"), std::ios::binary) << labels;
    return "--dataset idx --batch-size 2 --test-fraction 0 --max-steps 2 --data " +
           (folder / name);
  };
  const std::string one = program + write_digits("one", 5);
  const std::string two = program + write_digits("two", 6);
  const std::string same = program + write_digits("same", 5);
  refused(one, two, "training data: idx, 20 samples");
  const CommandResult agreed =
      run_command("timeout 120 " MPIEXEC " -np 2 " + one + " : -np 1 " + same);
  INFO(agreed.err);
  CHECK(agreed.status == 0);
}

TEST_CASE("a run whose gradients are never finite ends, and says why", "[lesson05]") {
  const CommandResult result =
      mpirun(3, "ddp_training", "--optimizer sgd --lr 1e6 --max-steps 50 --json");
  CHECK(result.status == 1);
  CHECK(result.err.find("10 steps in a row had to be skipped") != std::string::npos);
  std::size_t skipped = 0;
  for (const json& row : result.rows()) skipped += row.contains("skipped");
  CHECK(skipped == 11);  // the host hears of the tenth while the eleventh is refused
}
