// Fault 15: the run is asked to stop, for example because its machine is reclaimed.
#include "tests/faults/faults.hpp"

#include <random>
#include <string>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("a run stopped by a signal exits with status 75 and can be resumed", "[fault15]") {
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
  // Without a checkpoint the run could not be resumed, so the signal ends it as it would end
  // any other program.
  const CommandResult ended = interrupted(3, kRun + "--metrics " + (folder / "m.jsonl"),
                                          folder / "m.jsonl", 20, "kill -TERM $last");
  CHECK(ended.status != 75);
  CHECK(ended.status != 0);
}

TEST_CASE("a run writes its checkpoint however often and however early it is asked to stop",
          "[fault15]") {
  std::mt19937 random(1);
  const int signals = times(9, 500);
  int bursts = 0;
  for (const std::string layers : {"784,10", "784,32,10", "784,512,512,512,10"}) {
    const TemporaryFolder folder;
    const std::string run = "--layers " + layers + " ";
    const std::string whole = folder / "whole.jsonl";
    for (int i = 0; i < (signals + 2) / 3; ++i) {
      INFO(layers << ", signal " << i);
      // No signal is sent before every rank blocks it. The signals arrive during MPI_Init,
      // while data are read, in the first step, or in mid-epoch.
      const std::string moment = random_moment(random, 700);
      const int count = i % 2 == 0 ? 30 : 1;
      bursts += count > 1;
      const CommandResult stopped = run_command(
          "timeout -k 10 120 " MPIEXEC " -np 4 " PROGRAM_DIR "/ddp_training --epochs 100000 " +
          run + files(folder, "cut") +
          "& t=$!; until mpirun=$(cat /proc/$t/task/$t/children) && [ \"$mpirun\" ] && "
          "[ $(for r in $(cat /proc/${mpirun% }/task/${mpirun% }/children); do grep -l "
          "'^SigBlk:.*[2367abef]..$' /proc/$r/status; done | wc -l) = 4 ] || ! kill -0 $t; do "
          "sleep 0.01; done; sleep " +
          moment + "; for i in $(seq " + std::to_string(count) +
          "); do kill -USR1 $mpirun; done; wait $t");
      INFO(stopped.err);
      REQUIRE(stopped.status == 75);
      // The next steps equal those of a run that was never stopped.
      const std::string until =
          "--max-steps " + std::to_string(lines(content_of(folder / "cut.jsonl")) + 2) + " ";
      REQUIRE(
          mpirun(4, "ddp_training", run + until + files(folder, "cut") + "--resume").status ==
          0);
      const std::string cut = content_of(folder / "cut.jsonl");
      if (lines(content_of(whole)) < lines(cut)) {
        REQUIRE(mpirun(4, "ddp_training",
                       run + "--metrics " + whole + " --max-steps " +
                           std::to_string(2 * lines(cut)))
                    .status == 0);
      }
      const bool same = content_of(whole).starts_with(cut);
      CHECK(same);
      std::filesystem::remove(folder / "cut.jsonl");
      std::filesystem::remove(folder / "cut.st");
    }
  }
  figure(15, std::to_string((signals + 2) / 3 * 3) + " runs asked to stop, " +
                 std::to_string(bursts) +
                 " by bursts of 30: all exited with 75 and continued bit for bit");
}
