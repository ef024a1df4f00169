// Jobs that stand still outside their work: while MPI starts, before the first message, while
// MPI ends, or beside a program that is not ours.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <string>

using namespace dist::test;

namespace {

void check_reported(const CommandResult& result, const std::string& line,
                    const std::string& last) {
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.says("hang: " + line));
  CHECK(result.says("hang: nothing has moved on this host for " + last + "\n"));
}

}  // namespace

TEST_CASE("a rank that is stopped while MPI starts is named", "[start]") {
  // Stopped once it has attached the board, long before MPI_Init returns.
  const CommandResult result = run_command(
      "timeout 120 mpirun -np 3 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 && "
      "(until grep -q SYSV /proc/$$/maps; do :; done; kill -STOP $$) & "
      "exec \"$0\" --timeout 1' " PROGRAM_DIR "/ddp_training");
  check_reported(result, "rank 1 is stopped (SIGSTOP) in MPI_Init\n",
                 "30 s, at MPI's start or end");
}

TEST_CASE("a rank that is stopped while MPI ends is named", "[start]") {
  check_reported(mpirun(3, kHangs, "--case stopped-in-finalize --timeout 1"),
                 "rank 2 is stopped (SIGSTOP) outside MPI calls, last call MPI_Finalize",
                 "30 s, at MPI's start or end");
}

TEST_CASE("a rank that waits for its data is named", "[start]") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "init.safetensors";
  REQUIRE(run_command("mkfifo " + pipe).status == 0);
  check_reported(mpirun(3, "ddp_training", "--timeout 1 --init " + pipe),
                 "rank 0 has made no MPI call for ", "1 s (--timeout)");
}

TEST_CASE("a rank that runs another program is missed as soon as MPI has started", "[start]") {
  const std::string other = ": -np 1 " PROGRAM_DIR "/../tests/all_reduce_unwatched";
  check_reported(mpirun(1, "ddp_training", "--timeout 1 " + other),
                 "1 of the 2 ranks of this host came without the watch\n", "1 s (--timeout)");
}
