// Fault 14: one rank throws an exception or has too little memory.
#include "tests/faults/faults.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

// True if the output contains our message, the dynamic loader's, or that of a library that
// checks its allocations.
bool says_it_was_memory(const CommandResult& result) {
  const std::vector<std::string> sentences{
      "] fatal: out of memory: ", "failed to map segment from shared object",
      "Cannot allocate memory"};
  return std::ranges::any_of(sentences, [&](const auto& text) { return result.says(text); });
}

}  // namespace

TEST_CASE("an exception on one rank ends all ranks and is printed with its rank", "[fault14]") {
  // The folder is moved away after the first checkpoint, so only rank 0, which writes, throws.
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const CommandResult result = run_command(
      "timeout -k 10 120 " MPIEXEC " -np 3 sh -c 'exec " PROGRAM_DIR
      "/ddp_training --dataset synthetic --samples 30000 --layers 64,64,4 --classes 4 "
      "--batch-size 4 --checkpoint-every 1 --checkpoint " +
      (folder / "gone/x") + "' & pid=$!; until [ -e " + (folder / "gone/x") +
      " ] || ! kill -0 $pid; do sleep 0.05; done; mv " + (folder / "gone") + " " +
      (folder / "away") + "; wait $pid");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.err.find("[rank 0] fatal: ") != std::string::npos);
  figure(14, "an exception on one rank ends all three ranks");
}

// Limits one rank's memory to several amounts, some barely enough for its libraries. Whichever
// allocation fails first (MPI's, a thread's, oneDNN's or ours), the job ends and says why. The
// limit is on addresses, of which CUDA needs more than any machine has memory.
TEST_CASE("a rank that runs out of memory ends the job and says so", "[fault14][memory]") {
  int works = 0;
  int says = 0;
  for (const std::string program :
       {"ddp_training --max-steps 2", "all_reduce_perf --max-bytes 65536 --iterations 2"}) {
    for (int mib = 40; mib <= 320; mib += 20) {
      const CommandResult result = run_command(
          kHideGpus +
          "timeout -k 10 120 " MPIEXEC
          " -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 || ulimit -v " +
          std::to_string(mib << 10) + "; exec " PROGRAM_DIR "/" + program + " --timeout 0'");
      INFO(program << ", " << mib << " MiB: " << result.status << "\n"
                   << result.out << result.err);
      works += result.status == 0 ? 1 : 0;
      if (result.status == 0) continue;
      CHECK(result.status != 124);
      CHECK_FALSE(result.says("exited on signal"));
      CHECK(says_it_was_memory(result));
      says += result.says("[rank 1] fatal: out of memory: ") ? 1 : 0;
    }
  }
  CHECK(works > 0);
  CHECK(says > 0);
  figure(14, std::to_string(says) + " memory limits end the job with a message, " +
                 std::to_string(works) + " are sufficient");
}
