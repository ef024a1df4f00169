// The watch distinguishes between all kinds of hangs.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <string>
#include <vector>

using namespace dist::test;

namespace {

// The run must end with status 86 and report these lines in this order.
void check_diagnosed(const std::string& flags, const std::vector<std::string>& report,
                     int ranks = 4) {
  const CommandResult result = mpirun(ranks, kHangs, "--timeout 1 --case " + flags);
  INFO(flags << "\n" << result.out << result.err);
  CHECK(result.status == 86);
  std::size_t from = 0;
  for (const std::string& line : report) {
    const std::size_t found = result.err.find("hang: " + line, from);
    INFO("expected: " << line);
    CHECK(found != std::string::npos);
    if (found != std::string::npos) from = found;
  }
  if (flags == "spinning") CHECK(result.says(" s, last call MPI_Send to 3\n"));
  CHECK(result.err.find("hang: nothing has moved on this host for 1 s (--timeout)") !=
        std::string::npos);
}

}  // namespace

TEST_CASE("two ranks that send to each other synchronously form a cycle", "[hang]") {
  check_diagnosed("head-to-head",
                  {"rank 0 in MPI_Ssend to 1 (1 MiB, tag 3); rank 1 in MPI_Ssend to 0 (1 MiB, "
                   "tag 3): cycle 0 -> 1 -> 0\n"},
                  2);
}

TEST_CASE("a ring of sends depends on MPI's buffers, which --strict takes away", "[hang]") {
  CHECK(mpirun(3, kHangs, "--case ring-of-sends --timeout 1").status == 0);
  check_diagnosed("ring-of-sends --strict",
                  {"rank 0 in MPI_Send to 1 (16 B, tag 0); rank 1 in MPI_Send to 2 (16 B, tag "
                   "0); rank 2 in MPI_Send to 0 (16 B, tag 0): cycle 0 -> 1 -> 2 -> 0\n"},
                  3);
}

TEST_CASE("a wrong tag is reported together with the tag that was sent", "[hang]") {
  check_diagnosed("wrong-tag", {"rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8\n"});
}

TEST_CASE("a message on a different communicator is distinguished from one never sent",
          "[hang]") {
  check_diagnosed("other-communicator", {"rank 1 waits for tag 0 from rank 3; rank 3 has sent "
                                         "tag 0 on a different communicator\n"});
}

TEST_CASE("a rank that skips a collective is named with the last one it entered", "[hang]") {
  check_diagnosed("skipped-collective",
                  {"rank 2 in MPI_Recv from 3 (16 B, tag 0); rank 3 in MPI_Allreduce #7 (4 B): "
                   "cycle 2 -> 3 -> 2\n",
                   "ranks 0, 1, 3 are in MPI_Allreduce #7 (4 B); rank 2 never entered it, last "
                   "seen in #6 (MPI_Barrier)\n"});
}

TEST_CASE("different collectives at the same position are told apart", "[hang]") {
  check_diagnosed("other-collective",
                  {"ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 is in MPI_Bcast #1 (4 "
                   "B, root 0)\n"});
}

TEST_CASE("a wait for a rank that has finished is reported", "[hang]") {
  check_diagnosed("from-finished", {"rank 0 in MPI_Recv from 1 (16 B, tag 0)\n",
                                    "rank 1 has already finished (MPI_Finalize)\n"});
}

TEST_CASE("a stopped rank is named, and does not outlive the job", "[hang]") {
  // If the stopped process kept mpirun waiting, the command `timeout` would end mpirun with a
  // different status.
  check_diagnosed("stopped",
                  {"ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never entered it\n",
                   "rank 2 is stopped (SIGSTOP) outside MPI calls"});
  check_diagnosed("first-stopped",
                  {"ranks 1, 2, 3 are in MPI_Allreduce #1 (4 B); rank 0 never entered it\n",
                   "rank 0 is stopped (SIGSTOP) outside MPI calls"});
}

TEST_CASE("a rank that computes forever is named with its last call", "[hang]") {
  check_diagnosed("spinning", {"ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 never",
                               "rank 2 has made no MPI call for 1."});
}

TEST_CASE("for a wait or a poll, the report says what the requests are for", "[hang]") {
  check_diagnosed("requests",
                  {"rank 0 in MPI_Waitall for MPI_Irecv from 1 (16 B, tag 5) and "
                   "MPI_Irecv from 2 (32 B, tag 6); rank 1 in MPI_Barrier #1: cycle"});
  check_diagnosed("polling", {"rank 0 asking MPI_Test for MPI_Irecv from 1 (16 B, tag 5);"});
}

TEST_CASE("a chain of waits is not reported as a cycle", "[hang]") {
  check_diagnosed(
      "chain",
      {"rank 0 in MPI_Recv from 3 (16 B, tag 0)\n", "rank 1 has made no MPI call for",
       "rank 2 in MPI_Recv from 0 (16 B, tag 0)\n", "rank 3 has made no MPI call for"});
  CHECK_FALSE(mpirun(4, kHangs, "--case chain --timeout 1").says("cycle"));
}

TEST_CASE("our own operations are named and numbered like MPI's", "[hang]") {
  check_diagnosed("named --strict",
                  {"ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 "
                   "never entered it, last seen in #6\n",
                   "rank 2 has made no MPI call for"});
}

TEST_CASE("a patient wait is reported like any other, with its operation and its peer",
          "[hang]") {
  check_diagnosed("named-patiently --strict",
                  {"ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2 "
                   "never entered it, last seen in #6\n",
                   "rank 3 asking MPI_Test for MPI_Irecv from 2 (16 B, tag 0) of all_reduce #7 "
                   "(bucket 2: 2.weight, 2.bias)\n"});
}

TEST_CASE("only the rank that the others waited for before the hang is named as slow",
          "[hang]") {
  const std::string slow = "hang: before that, the others waited for rank ";
  const CommandResult unlike = mpirun(4, kHangs, "--case slow-rank --timeout 5");
  INFO(unlike.err);
  CHECK(unlike.status == 86);
  CHECK(unlike.says(slow + "2, which computed "));
  const CommandResult alike = mpirun(4, kHangs, "--case equal-work --timeout 5");
  INFO(alike.err);
  CHECK(alike.status == 86);
  CHECK_FALSE(alike.says(slow));
}

TEST_CASE("a rank that never starts MPI is reported by the others", "[start]") {
  // MPI is given 30 s to start, even if the time-out is shorter.
  const CommandResult result = run_command(
      "mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 || exec sleep 100; exec "
      "\"$0\" --timeout 1' " PROGRAM_DIR "/send_recv");
  INFO(result.err);
  CHECK(result.status == 86);
  CHECK(result.err.find("hang: rank 0 in MPI_Init\n") != std::string::npos);
  CHECK(result.err.find("hang: 1 of the 2 ranks of this host never reached MPI_Init\n") !=
        std::string::npos);
}

TEST_CASE("a wait in shared memory is reported with the rank that it waits for", "[hang]") {
  check_diagnosed("shared-memory",
                  {"rank 0 in MPI_Barrier #1; rank 1 in a flag in shared memory, waiting for "
                   "rank 0: cycle 0 -> 1 -> 0\n"});
}

TEST_CASE("a slow run is not a hang, and the watch can be switched off", "[hang]") {
  for (const std::string flags : {"slow --timeout 1.5", "slow-waits --timeout 1.5",
                                  "slow-disk --timeout 1.5", "slow --timeout 0"}) {
    const CommandResult result = mpirun(3, kHangs, "--case " + flags);
    INFO(flags << result.err);
    CHECK(result.status == 0);
    CHECK_FALSE(result.says("hang:"));
  }
}

TEST_CASE("invalid values of the watch's flags are refused", "[hang]") {
  for (const std::string flags :
       {"--timeout -1", "--timeout nan", "--timeout soon", "--trace ''", "--strict=2"}) {
    const CommandResult result = mpirun(2, "send_recv", flags);
    INFO(flags << result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find("error: " + flags.substr(0, 7)) != std::string::npos);
    CHECK(result.out.empty());
  }
  CHECK_FALSE(mpirun(1, "send_recv", "--help").says("--timeout"));
  CHECK(mpirun(1, "send_recv", "--help-all").says("--timeout"));
}
