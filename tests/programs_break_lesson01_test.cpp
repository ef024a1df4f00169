// Lesson 1's experiments: each shows the symptom and the numbers that it promises.
#include "tests/support/broken_run.hpp"
#include "tests/support/error_of.hpp"

#include <cstddef>
#include <regex>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

const std::string kSendRecv = "send_recv";

}  // namespace

TEST_CASE("send_recv lists its experiments and refuses those that it cannot run", "[break]") {
  const std::vector<std::string> names{"shared-variable", "head-to-head", "wrong-tag",
                                       "truncate",        "wrong-type",   "reuse-buffer",
                                       "print-order",     "no-group"};
  check_list(kSendRecv, names);
  for (const std::string& name : names) {
    check_refused("broken/send_recv", name, "NAME: " + name + " needs 2 ranks", 1);
  }
  check_refused("broken/send_recv", "wrong-type --json", "--json: unknown flag");
  check_refused("broken/send_recv", "nonsense", "NAME: 'nonsense' is not one of list, ");
}

TEST_CASE("shared-variable: rank 0's 42 stays on rank 0", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::string out = check_text(ranks, kSendRecv, "shared-variable");
    CHECK(std::regex_search(out, std::regex("rank 0  the_variable at 0x[0-9a-f]+: 42\n")));
    for (int rank = 1; rank < ranks; ++rank) {
      const std::string zero = "rank " + std::to_string(rank) + "  the_variable at .*: 0\n";
      CHECK(std::regex_search(out, std::regex(zero)));
    }
  }
}

TEST_CASE("head-to-head: works at the eager limit and deadlocks one number above it",
          "[break]") {
  const json limit =
      mpirun(2, "send_recv_perf", "--act eager --json").rows().at(0)["eager_limit_bytes"];
  const auto fits = limit.get<std::size_t>() / 4 * 4;
  for (const int ranks : {2, 4}) {
    const CommandResult result = hang(ranks, kSendRecv, "head-to-head");
    CHECK(
        result.says(std::to_string(fits) +
                    " bytes (the eager limit), ranks 0 and 1 both send first: right numbers"));
    CHECK(result.says(std::to_string(fits + 4) + " bytes, ranks 0 and 1 both send first"));
    CHECK(result.says("hang: rank 0 in MPI_Send to 1 ("));
    CHECK(result.says("cycle 0 -> 1 -> 0"));
  }
}

TEST_CASE("head-to-head with --strict hangs at 4 bytes", "[break]") {
  const CommandResult result = broken(2, kSendRecv, "head-to-head", "--strict --timeout 2");
  INFO(result.out << result.err);
  CHECK(result.status == 86);
  CHECK(result.says("no MPI_Send of any size returns before its receive is called"));
  CHECK(
      result.says("hang: rank 0 in MPI_Send to 1 (4 B, tag 0); rank 1 in MPI_Send to 0 "
                  "(4 B, tag 0): cycle 0 -> 1 -> 0"));
}

TEST_CASE("wrong-tag: the report names the tag that was expected and the tag that was sent",
          "[break]") {
  for (const int ranks : {2, 4}) {
    const CommandResult result = broken(ranks, kSendRecv, "wrong-tag", "--timeout 2");
    INFO(result.out << result.err);
    CHECK(result.status == 86);
    CHECK(result.says(
        "sent tag 8, then 7; received tag 7, then 8: each receive got its own message"));
    CHECK(result.says("hang: rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8\n"));
  }
}

TEST_CASE("truncate: MPI rejects a message that is too long; only recv rejects a short one",
          "[break]") {
  for (const int ranks : {2, 4}) {
    const std::string out = check_text(ranks, kSendRecv, "truncate");
    CHECK(contains(out, "4 numbers, room for 3: MPI_Recv returns MPI_ERR_TRUNCATE\n"));
    CHECK(contains(out, "memory after the buffer: unchanged\n"));
    CHECK(contains(
        out, "3 numbers, room for 4: MPI_Recv returns MPI_SUCCESS; its status counts 3\n"));
    CHECK(contains(out, "memory: 1000 1001 1002 -1 "));
    CHECK(contains(out, "recv() reports \"received 3 elements from rank 1, expected 4\""));
  }
}

TEST_CASE("wrong-type: the bits of a float are read as an int", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::string out = check_text(ranks, kSendRecv, "wrong-type");
    CHECK(contains(out, "sent as floats:      1000 1001 1002 1003\n"));
    CHECK(contains(out, "received as ints:    1148846080 "));  // 0x447a0000: 1000 in binary32
  }
}

TEST_CASE("reuse-buffer: above the eager limit the receiver gets the later value", "[break]") {
  for (const int ranks : {2, 4}) {
    const std::string out = check_text(ranks, kSendRecv, "reuse-buffer");
    CHECK(std::regex_search(out,
                            std::regex(" 16 B: rank 0 received [0-4] numbers of version 1")));
    CHECK(std::regex_search(out, std::regex("1 MiB: .* [1-9][0-9]* of version 2\n")));
  }
}

TEST_CASE("print-order: because of the ranks' buffers, lines are out of order", "[break]") {
  for (const int ranks : {2, 4, 7}) {
    const std::string out = check_text(ranks, kSendRecv, "print-order");
    CHECK(contains(out, ": out of order\n"));
    std::string order;
    for (int line = 0; line < 2 * ranks; ++line) order += std::to_string(line) + " ";
    order.back() = ':';
    CHECK(contains(out, "one file, each line flushed: " + order + " in order\n"));
    for (int rank = 0; rank < ranks; ++rank) {  // in any order
      const std::string number = std::to_string(rank);
      CHECK(contains(out, "line " + number + " by rank " + number));
    }
  }
}

TEST_CASE("no-group: with NCCL, ungrouped sends wait in a cycle", "[break][gpu]") {
  for (const int ranks : {2, 3}) {
    const CommandResult result = broken(ranks, kSendRecv, "no-group", "--timeout 2");
    INFO(result.out << result.err);
    if (result.status == 2) {
      CHECK(result.out.empty());
      CHECK(result.err.find("error: no-group: ") == 0);
      continue;
    }
    CHECK(result.status == 86);
    CHECK(result.says("send and receive in a group: right numbers"));
    CHECK(result.says("NCCL call"));    // the report names NCCL's stream or call
    if (!DIST_CUDA_EMULATED) continue;  // the watch cannot see inside real NCCL
    CHECK(result.says("of ncclSend #1"));
    CHECK(result.says(ranks == 2 ? "cycle 0 -> 1 -> 0" : "cycle 0 -> 1 -> 2 -> 0"));
  }
}
