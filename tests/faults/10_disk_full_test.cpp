// Fault 10: the disk is full.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

namespace {

const std::string kSmall = "--dataset synthetic --samples 64 --layers 6,5,10 --batch-size 4 ";
// With this prefix, no file can grow beyond 8 blocks of 512 bytes. Emulated GPUs share memory
// in files, so they are hidden.
const std::string kFull =
    "env " + kHideGpus + "sh -c 'trap \"\" XFSZ; ulimit -f 8; exec \"$@\"' sh ";

}  // namespace

TEST_CASE("if the disk is full, the run continues without its --metrics file", "[fault10]") {
  const TemporaryFolder folder;
  const std::string log = folder / "cut.jsonl";
  const std::string flags = kSmall + "--max-steps 300 " + files(folder, "cut");
  const CommandResult result = run_command("timeout -k 10 120 " MPIEXEC " -np 2 " + kFull +
                                           PROGRAM_DIR "/ddp_training " + flags);
  INFO(result.err);
  CHECK(result.status == 1);
  const std::string words = "--metrics: " + log + ": cannot be written: File too large";
  CHECK(result.says("error: " + words + "; training continues without metrics\n"));
  CHECK(result.says("WRONG: " + words));
  const CommandResult rest = mpirun(
      2, "ddp_training",
      "--json --resume " + kSmall + "--max-steps 301 " + "--checkpoint " + (folder / "cut.st"));
  CHECK(rest.status == 0);
  CHECK(rest.rows().size() == 2);  // the rows of step 300 and of the summary
}

TEST_CASE("if the disk is full, --checkpoint keeps the previous file", "[fault10]") {
  const TemporaryFolder folder;
  const std::string file = folder / "x";
  const std::string flags =
      "--dataset synthetic --samples 64 --layers 60,50,10 --batch-size 4 --checkpoint " + file;
  CHECK(mpirun(2, "ddp_training", flags + " --max-steps 3").status == 0);
  const std::string before = content_of(file);
  const CommandResult result = run_command("timeout -k 10 120 " MPIEXEC " -np 2 " + kFull +
                                           PROGRAM_DIR "/ddp_training " + flags +
                                           " --resume --checkpoint-every 1 --max-steps 9");
  INFO(result.err);
  CHECK(result.status == 1);
  CHECK(result.says("[rank 0] fatal: " + file + ": cannot be written: File too large"));
  const bool untouched = content_of(file) == before;
  CHECK(untouched);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  figure(10, "the previous file is kept byte for byte; 0 lost");
}

TEST_CASE("if the disk is full, a run with --trace is not verified", "[fault10]") {
  const TemporaryFolder folder;
  const std::string file = folder / "trace";
  const CommandResult result =
      run_command("timeout -k 10 120 " MPIEXEC " -np 2 " + kFull +
                  PROGRAM_DIR "/ddp_training " + kSmall + "--max-steps 50 --trace " + file);
  INFO(result.err);
  CHECK(result.status == 1);
  CHECK(result.says("fatal: --trace: " + file + ": cannot be written: File too large"));
  CHECK_FALSE(result.says("verified:"));
}

TEST_CASE("a standard output that cannot be written is an error", "[fault10]") {
  const TemporaryFolder folder;
  const std::string log = folder / "m";
  for (const std::string to : {">/dev/full", ">&-"}) {
    INFO(to);
    const std::string program = "timeout -k 10 120 " MPIEXEC " -np 1 sh -c 'exec \"$@\" " + to +
                                "' sh " PROGRAM_DIR "/ddp_training ";
    const CommandResult result =
        run_command(program + kSmall + "--max-steps 3 --json --metrics " + log);
    INFO(result.err);
    CHECK(result.status == 1);
    CHECK(result.says("error: standard output cannot be written\n"));
    CHECK(lines(content_of(log)) == 3);  // no rows meant for standard output
    CHECK(run_command(program + "--help").status == 1);
  }
}
