// Tests the features that all programs share, and the test runner itself.
#include "tests/support/program_checks.hpp"

#include <string>

using namespace dist::test;

TEST_CASE("--help and --version print to standard output once, with status 0", "[usage]") {
  const CommandResult help = mpirun(3, "send_recv_perf", "--help");
  CHECK(help.status == 0);
  CHECK(help.out.find("--act") != std::string::npos);
  CHECK(help.out.find("--act") == help.out.rfind("--act"));
  CHECK(lines(help.out) <= 25);
  const CommandResult all = mpirun(2, "ddp_training", "--help-all");
  CHECK(all.says("--sampler-seed"));
  CHECK_FALSE(mpirun(2, "ddp_training", "--help").says("--sampler-seed"));
  CHECK(mpirun(2, "all_reduce", "--version").out == "all_reduce " DIST_VERSION "\n");
}

TEST_CASE("the test runner prints a failure with its rank and fails the whole test",
          "[harness]") {
  const CommandResult result = mpirun(3, "../tests/lesson01_test", "'[.rank-1-fails]'");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("[rank 1] ") != std::string::npos);
  CHECK(result.err.find("rank 1 fails on purpose") != std::string::npos);
  CHECK(result.err.find("[rank 2] ") == std::string::npos);
}

TEST_CASE("the test runner ends a test that hangs and names it", "[harness]") {
  const CommandResult result =
      run_command("TEST_CASE_SECONDS=2 timeout -k 10 120 " MPIEXEC " -np 3 " PROGRAM_DIR
                  "/../tests/lesson01_test '[.hangs]'");
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.err.find("hang: test case \"all but rank 0 wait forever on purpose\"") !=
        std::string::npos);
}
