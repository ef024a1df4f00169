// Fault 18: the job runs in a container. /dev/shm may be tiny (docker run --shm-size), so the
// watch keeps its shared memory elsewhere, and Open MPI falls back to TCP for what it cannot
// share. Without ptrace, no rank can read another process's memory.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;

namespace {

// A prefix for mpirun() that gives the command its own /dev/shm.
std::string with_shared_memory(const std::string& size) {
  return "unshare --map-root-user --mount sh -c 'mount -t tmpfs -o size=" + size +
         " tmpfs /dev/shm && exec \"$@\"' sh ";
}

bool can_mount() {
  const bool can = run_command(with_shared_memory("64k") + "true").status == 0;
  if (!can) std::cout << "skipped: mounts are not allowed here" << std::endl;
  return can;
}

}  // namespace

TEST_CASE("every program works with a small /dev/shm, with and without a trace", "[fault18]") {
  if (!can_mount()) return;
  const TemporaryFolder folder;
  int runs = 0;
  for (const std::string size : {"16m", "1m", "64k"}) {
    for (const std::string& trace : {std::string(), " --trace " + (folder / "t.json")}) {
      for (const std::string program :
           {"send_recv", "all_reduce_perf --max-bytes 4096 --iterations 2",
            "ddp_training --max-steps 2"}) {
        const CommandResult result =
            mpirun(4, program, "--timeout 30" + trace, with_shared_memory(size));
        INFO(size << " " << program << trace << "\n" << result.out << result.err);
        CHECK(result.status == 0);
        runs += result.status == 0;
      }
    }
  }
  figure(18, std::to_string(runs) + " runs with 16 MiB to 64 KiB of /dev/shm, all successful");
}

TEST_CASE("without cross-memory attach the lessons give the same results", "[fault18]") {
  const std::string before = "OMPI_MCA_btl_vader_single_copy_mechanism=none ";
  for (const char* program :
       {"all_reduce_perf --max-bytes 65536 --iterations 2", "ddp_training --max-steps 2"}) {
    CHECK(mpirun(3, program, "", before).status == 0);
  }
}

TEST_CASE("a hang report is complete even with a small /dev/shm", "[fault18]") {
  if (!can_mount()) return;
  const TemporaryFolder folder;
  for (const std::string size : {"16m", "64k"}) {
    const CommandResult result =
        mpirun(4, kHangs, "--case stopped --timeout 1 --trace " + (folder / "t.json"),
               with_shared_memory(size));
    INFO(size << result.err);
    CHECK(result.status == 86);
    CHECK(
        result.says("hang: ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered "
                    "it\nhang: rank 2 is stopped (SIGSTOP)"));
    CHECK(result.says("hang: the trace is in " + (folder / "t.json\n")));
  }
}
