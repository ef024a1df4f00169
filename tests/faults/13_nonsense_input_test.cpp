// Fault 13: invalid flags, for each program. The whole job refuses them with a single sentence
// that names the flag, before it does any work or writes any file.
#include "tests/faults/faults.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <future>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace dist::test;

namespace {

struct BadUsage {
  std::string flags;
  std::string error;  // how the error message begins
};

// The lines of standard error that begin with "error: "; mpirun adds lines of its own.
std::vector<std::string> error_lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    if (line.rfind("error: ", 0) == 0) found.push_back(line);
  }
  return found;
}

struct Outcome {
  CommandResult result;
  bool nothing_written = false;
};

Outcome outcome(const std::string& program, const std::string& flags) {
  const TemporaryFolder folder;
  CommandResult result = mpirun_in(folder, 2, program, flags, kNoGrace);
  return {std::move(result), std::filesystem::is_empty(folder.path())};
}

// `files` holds flags that name the files that a successful run would write.
void check_all_refused(const std::string& program, const std::string& files,
                       const std::vector<BadUsage>& table) {
  // Starting a job mostly means waiting, so several jobs run at the same time.
  constexpr std::size_t kAtOnce = 4;
  std::vector<std::future<Outcome>> running;
  for (std::size_t i = 0; i < table.size(); ++i) {
    while (running.size() < std::min(i + kAtOnce, table.size())) {
      const std::string flags = files + table[running.size()].flags;
      running.push_back(std::async(std::launch::async, outcome, program, flags));
    }
    const auto [result, nothing_written] = running[i].get();
    INFO(program << " " << files << table[i].flags << "\n" << result.out << result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    const std::vector<std::string> errors = error_lines(result.err);
    CHECK(errors.size() == 1);
    if (!errors.empty()) CHECK(errors.front().rfind("error: " + table[i].error, 0) == 0);
    CHECK(nothing_written);
  }
  figure(13, program + ": " + std::to_string(table.size()) + " kinds refused");
}

const std::string kTrace = "--trace t.json ";

}  // namespace

TEST_CASE("send_recv_perf refuses invalid flags in one sentence and writes nothing",
          "[fault13]") {
  check_all_refused("send_recv_perf", kTrace,
                    {{"--bogus", "--bogus: unknown flag"},
                     {"-x", "-x: unknown flag"},
                     {"stray", "stray: "},
                     {"--act", "--act: "},
                     {"--act ''", "--act: '' is not one of"},
                     {"--act RING", "--act: 'RING' is not one of"},
                     {"--min-bytes 3", "--min-bytes: 3 is not between"},
                     {"--min-bytes 6", "--min-bytes: 6 is not a whole number of floats"},
                     {"--max-bytes 1e6", "--max-bytes: '1e6' is not a whole number"},
                     {"--max-bytes -1", "--max-bytes: -1 is not between"},
                     {"--min-bytes 64 --max-bytes 16", "--min-bytes: larger than --max-bytes"},
                     {"--seed -1", "--seed: -1 is not between"},
                     {"--seed 1.5", "--seed: '1.5' is not a whole number"},
                     {"--threads 0", "--threads: 0 is not between"},
                     {"--threads 100000", "--threads: 100000 is not between"},
                     {"--device tpu", "--device: 'tpu' is not one of"},
                     {"--json=3", "--json: takes no value"},
                     {"--strict=2", "--strict: takes no value"},
                     {"--timeout -1", "--timeout: -1 is not between"},
                     {"--timeout inf", "--timeout: 'inf' is not a number"},
                     {"--trace no/such/folder/t.json",
                      "--trace: no/such/folder/t.json: cannot be written: No such"},
                     {"--trace .", "--trace: . is a folder"}});
}

TEST_CASE("broadcast refuses invalid flags in one sentence and writes nothing", "[fault13]") {
  check_all_refused("broadcast_perf", kTrace,
                    {{"--root 2", "--root: 2 is not between 0 and 1"},
                     {"--root x", "--root: 'x' is not a whole number"},
                     {"--root 99999999999", "--root: 99999999999 is not between"},
                     {"--iterations 0", "--iterations: 0 is not between"},
                     {"--iterations 1e3", "--iterations: '1e3' is not a whole number"},
                     {"--max-bytes 0", "--max-bytes: 0 is not between"},
                     {"--max-bytes 4294967296", "--max-bytes: 4294967296 is not between"},
                     {"--max-bytes 1022", "--max-bytes: 1022 is not a whole number of floats"},
                     {"--algorithm ''", "--algorithm: '' is not one of"},
                     {"--algorithm tree,flat", "--algorithm: 'tree,flat' is not one of"}});
}

TEST_CASE("all_reduce refuses invalid flags in one sentence and writes nothing", "[fault13]") {
  check_all_refused("all_reduce", kTrace,
                    {{"--op mean", "--op: 'mean' is not one of"},
                     {"--algorithm tree", "--algorithm: 'tree' is not one of"},
                     {"--max-bytes 4", "--max-bytes: unknown flag"}});
  check_all_refused("all_reduce_perf", kTrace,
                    {{"--op mean", "--op: 'mean' is not one of"},
                     {"--algorithm tree", "--algorithm: 'tree' is not one of"},
                     {"--iterations -3", "--iterations: -3 is not between"},
                     {"--max-bytes 6", "--max-bytes: 6 is not a whole number of floats"},
                     {"--registered=no", "--registered: takes no value"}});
}

TEST_CASE("distributed_sampler refuses invalid flags in one sentence and writes nothing",
          "[fault13]") {
  check_all_refused("distributed_sampler", kTrace,
                    {{"--size many", "--size: 'many' is not a whole number"},
                     {"--size 99999999999999999999", "--size: 99999999999999999999 is not"},
                     {"--num-replicas 3", "--rank: must be given together with --num-replicas"},
                     {"--num-replicas 0 --rank 0", "--num-replicas: 0 is not between"},
                     {"--num-replicas 4 --rank -1", "--rank: -1 is not between"},
                     {"--num-replicas 2 --rank 2", "--rank: there is no rank 2"},
                     {"--epoch -1", "--epoch: -1 is not between"},
                     {"--batch-size nan", "--batch-size: 'nan' is not a whole number"},
                     {"--picture", "--picture: unknown flag"},
                     {"--drop-last=maybe", "--drop-last: takes no value"}});
}

TEST_CASE("ddp_training refuses invalid flags in one sentence and writes nothing",
          "[fault13]") {
  check_all_refused(
      "ddp_training", kTrace + "--checkpoint c.safetensors --metrics m.jsonl ",
      {{"--dataset mnist", "--dataset: 'mnist' is not one of"},
       {"--data .", "--data: must be given together with --dataset idx"},
       {"--dataset idx --data no/such", "--data: no/such"},
       {"--layers ''", "--layers: "},
       {"--layers 784", "--layers: needs at least"},
       {"--layers 784,-3,10", "--layers: -3 is not between"},
       {"--layers 784,99999999999999999999,10", "--layers: 99999999999999999999 is not"},
       {"--layers 783,10", "--layers: the input width is 783"},
       {"--batch-size 0", "--batch-size: 0 is not between"},
       {"--batch-size 1000000", "--batch-size: 1000000 per rank, but the whole training set"},
       {"--global-batch 3", "--global-batch: 3 is not divisible by 2 ranks"},
       {"--global-batch 4 --batch-size 2",
        "--global-batch: cannot be combined with --batch-size"},
       {"--epochs 0", "--epochs: 0 is not between"},
       {"--max-steps 0", "--max-steps: 0 is not between"},
       {"--optimizer adagrad", "--optimizer: 'adagrad' is not one of"},
       {"--lr inf", "--lr: 'inf' is not a number"},
       {"--lr ''", "--lr: '' is not a number"},
       {"--betas 0.9,0.9,0.9", "--betas: '0.9,0.9,0.9' is not 2 numbers"},
       {"--dataset synthetic --samples 1 --batch-size 1",
        "--dataset: 1 samples are too few for 2 ranks"},
       {"--dataset synthetic --samples 0", "--samples: 0 is not between"},
       {"--classes -1", "--classes: -1 is not between"},
       {"--test-fraction 1.5", "--test-fraction: 1.5 is not between"},
       {"--accumulate 0", "--accumulate: 0 is not between"},
       {"--backend gloo", "--backend: 'gloo' is not one of"},
       {"--algorithm tree", "--algorithm: 'tree' is not one of"},
       {"--bucket-cap-mb -1", "--bucket-cap-mb: -1 is not between"},
       {"--first-bucket-mb nan", "--first-bucket-mb: 'nan' is not a number"},
       {"--check-replicas -1", "--check-replicas: -1 is not between"},
       {"--checkpoint-every 0", "--checkpoint-every: 0 is not between"},
       {"--checkpoint no/such/folder/x",
        "--checkpoint: no/such/folder/x: cannot be written: No such"},
       {"--metrics .", "--metrics: . is a folder"},
       {"--metrics c.safetensors", "--metrics: c.safetensors is also the file of --checkpoint"},
       {"--metrics ./c.safetensors", "--metrics: ./c.safetensors is also the file of"},
       {"--trace c.safetensors", "--trace: c.safetensors is also the file of --checkpoint"},
       {"--metrics /dev/null", "--metrics: /dev/null is not a regular file"},
       {"--metrics " + std::string(250, 'm'), "--metrics: mmm"},
       {"--resume", "--resume: "},
       {"--evaluate", "--evaluate: "},
       {"--init no/such/file", "--init: there is no file no/such/file"},
       {"--init /dev/null", "--init: /dev/null"}});
}

TEST_CASE("ddp_by_hand and single_process refuse invalid flags", "[fault13]") {
  check_all_refused("ddp_by_hand", kTrace,
                    {{"--epochs 0", "--epochs: 0 is not between"},
                     {"--seed -1", "--seed: -1 is not between"},
                     {"--batch-size 4", "--batch-size: unknown flag"}});
  const CommandResult alone = run_command(PROGRAM_DIR "/single_process --epochs 0");
  CHECK(alone.status == 2);
  CHECK(alone.err.find("error: --epochs: 0 is not between") == 0);
}
