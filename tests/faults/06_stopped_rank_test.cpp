// Fault 6: a rank is stopped or waits forever (in mid-run, before the first message, or while
// MPI starts up or shuts down), or runs a program that is not ours.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

namespace {

void check_reported(const CommandResult& result, const std::string& line,
                    const std::string& last) {
  INFO(result.out << result.err);
  // mpirun itself may fail as it ends: it deadlocks until the watch kills it, or it crashes
  // (tools/watch/launcher.hpp).
  CHECK((result.status == 86 || result.status == 137 ||
         (result.status == 139 && result.says("PMIx_server_finalize"))));
  CHECK(result.says("hang: " + line));
  CHECK(result.says("hang: nothing has moved on this host for " + last + "\n"));
}

}  // namespace

TEST_CASE("a stopped rank is named, and the job ends", "[fault06]") {
  const TemporaryFolder folder;
  const CommandResult result = interrupted(4, kRun + "--timeout 2 " + files(folder, "cut"),
                                           folder / "cut.jsonl", 10, "kill -STOP $last");
  INFO(result.err);
  CHECK(result.status == 86);
  CHECK(result.says("hang: rank 3 is stopped (SIGSTOP)"));
  // The signal comes at a random moment, so the others may be waiting in either of the step's
  // two collectives. A GPU replays a step, so there the host cannot tell which one it is.
  CHECK((result.says(" of all_reduce #") || result.says(" of mean of the loss #") ||
         result.says(" of ncclAllReduce #") || result.says("a stream with NCCL calls")));
}

TEST_CASE("if mpirun is stopped, no rank is blamed, and training goes on", "[fault06]") {
  const TemporaryFolder folder;
  const CommandResult result = interrupted(
      2, kRun + "--json --timeout 2 --epochs 300 " + files(folder, "cut"), folder / "cut.jsonl",
      10, "kill -STOP ${mpirun% }; sleep 5; kill -CONT ${mpirun% }");
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK_FALSE(result.says("hang:"));
}

TEST_CASE("training that makes progress raises no alarm", "[fault06]") {
  const int steps = times(500, 10'000);
  const CommandResult result =
      mpirun(4, "ddp_training",
             "--dataset synthetic --samples 3001 --layers 64,96,32,10 --batch-size 13 "
             "--timeout 5 --max-steps " +
                 std::to_string(steps));
  INFO(result.err);
  CHECK(result.status == 0);
  CHECK_FALSE(result.says("hang:"));
  figure(6, std::to_string(steps) + " steps on 4 ranks: 0 false alarms");
}

TEST_CASE("a rank that is stopped while MPI starts up is named", "[fault06]") {
  // The rank is stopped once it has a second thread. This is the watch's, which starts when the
  // rank is on the watch's board, long before MPI_Init returns.
  const CommandResult result = run_command(
      "timeout -k 10 120 mpirun -np 3 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 && "
      "(until set -- /proc/$$/task/*; test $# -gt 1; do :; done; kill -STOP $$) & "
      "exec \"$0\" --timeout 1' " PROGRAM_DIR "/ddp_training");
  check_reported(result, "rank 1 is stopped (SIGSTOP)",
                 "30 s, at the start or end of MPI or NCCL");
}

TEST_CASE("a rank that is stopped while MPI shuts down is named", "[fault06]") {
  check_reported(mpirun(3, kHangs, "--case stopped-in-finalize --timeout 1"),
                 "rank 2 is stopped (SIGSTOP) outside MPI calls, last call MPI_Finalize",
                 "30 s, at the start or end of MPI or NCCL");
}

TEST_CASE("a rank that runs a different program is reported as soon as MPI has started",
          "[fault06]") {
  const std::string other = ": -np 1 " PROGRAM_DIR "/../tests/all_reduce_unwatched";
  check_reported(mpirun(1, "ddp_training", "--timeout 1 " + other),
                 "1 of the 2 ranks of this host started without the watch\n",
                 "1 s (--timeout)");
}
