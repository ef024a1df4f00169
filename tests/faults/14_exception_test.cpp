// Fault 14: an exception on one rank.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

TEST_CASE("an exception on one rank ends all, and is printed with its rank", "[fault14]") {
  // The folder goes away after the first checkpoint: rank 0, which writes, throws alone.
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const CommandResult result = run_command(
      "timeout 120 " MPIEXEC " -np 3 sh -c 'exec " PROGRAM_DIR
      "/ddp_training --dataset synthetic --samples 30000 --layers 64,64,4 --classes 4 "
      "--batch-size 4 --checkpoint-every 1 --checkpoint " +
      (folder / "gone/x") + "' & pid=$!; until [ -e " + (folder / "gone/x") +
      " ] || ! kill -0 $pid; do sleep 0.05; done; mv " + (folder / "gone") + " " +
      (folder / "away") + "; wait $pid");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("[rank 0] fatal: ") != std::string::npos);
  figure(14, "the exception of one rank ends all three");
}
