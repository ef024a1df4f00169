// Tests the hang report, made from the ranks' reports: what counts as a cycle and what does
// not.
#include "tests/support/mpi_test.hpp"
#include "tools/watch/report/hang_report.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace dist::watch;
using dist::test::contains;

constexpr std::uint32_t kComm = 1;

static Operation operation(OperationKind kind, Call call, int peer, int tag = 0) {
  return {kind, call, peer, tag, kComm, 1, 4096};
}

static RankView in_call(int rank, Call call, const std::vector<Operation>& operations) {
  RankView view;
  view.board.rank = rank;
  ThreadRecord& thread = view.board.threads[0];
  thread.taken = 1;
  thread.inside = true;
  thread.set(call, operations, /*new_wait_label=*/0);
  return view;
}

TEST_CASE("an exchange in progress is not a cycle") {
  // Both ranks have sent and have posted their receives, so neither waits for the other.
  const auto exchange = [](int rank, int peer, std::uint32_t receives) {
    RankView view = in_call(rank, Call::MPI_Sendrecv,
                            {operation(OperationKind::send, Call::MPI_Sendrecv, peer),
                             operation(OperationKind::receive, Call::MPI_Sendrecv, peer)});
    Channel& channel = *view.board.channel(peer, 0, kComm);
    channel.sends = 1;
    channel.receives = receives;
    return view;
  };
  CHECK_FALSE(contains(describe_hang({exchange(0, 1, 1), exchange(1, 0, 1)}), "cycle"));
  // Without the receives, each rank waits for the other.
  const std::string report = describe_hang({exchange(0, 1, 0), exchange(1, 0, 0)});
  CHECK(contains(report,
                 "hang: rank 0 in MPI_Sendrecv to 1 and from 1 (4 KiB, tag 0); rank 1 in "
                 "MPI_Sendrecv to 0 and from 0 (4 KiB, tag 0): cycle 0 -> 1 -> 0\n"));
}

TEST_CASE("a stopped rank has not done its half, even if it had begun") {
  const Operation from_1 = operation(OperationKind::receive, Call::MPI_Recv, 1);
  RankView first = in_call(0, Call::MPI_Recv, {from_1});
  first.board.channel(1, 0, kComm)->sends = 1;  // what rank 1 waits for
  const RankView second =
      in_call(1, Call::MPI_Recv, {operation(OperationKind::receive, Call::MPI_Recv, 0)});
  CHECK_FALSE(contains(describe_hang({first, second}), "cycle"));
  first.stopped = true;
  CHECK(contains(describe_hang({first, second}), "cycle 0 -> 1 -> 0"));
}

TEST_CASE("a wait for a rank on a different host is reported, but not as a cycle") {
  const std::string report = describe_hang(
      {in_call(4, Call::MPI_Recv, {operation(OperationKind::receive, Call::MPI_Recv, 2, 7)})});
  CHECK(report == "hang: rank 4 in MPI_Recv from 2 (4 KiB, tag 7)\n");
}

TEST_CASE("ranks compute if they have started, and none is in a call") {
  std::vector<RankView> ranks(2);
  for (RankView& rank : ranks) rank.board.working = true;
  CHECK(all_compute(ranks));
  ranks[1].board.working = false;  // it starts or ends MPI or NCCL, which may wait for others
  CHECK_FALSE(all_compute(ranks));
  CHECK_FALSE(all_compute({in_call(0, Call::MPI_Barrier, {})}));
}

TEST_CASE("ranks have come if all that they wait for is known to be there") {
  const auto receives = [](int rank, int peer, std::size_t count, std::uint32_t sends) {
    const Operation one = operation(OperationKind::receive, Call::MPI_Irecv, peer);
    RankView view = in_call(rank, Call::MPI_Waitall, std::vector(count, one));
    view.board.channel(peer, 0, kComm)->sends = sends;
    return view;
  };
  CHECK(all_have_come({receives(0, 1, 8, 1), receives(1, 0, 8, 1)}));
  CHECK_FALSE(all_have_come({receives(0, 1, 8, 1), receives(1, 0, 8, 0)}));
  CHECK_FALSE(all_have_come({receives(0, 1, 9, 1), receives(1, 0, 9, 1)}));  // one is unknown
  CHECK_FALSE(all_have_come({receives(0, 1, 8, 1)}));  // rank 1 is on no board
  RankView uncounted = receives(0, 1, 1, 1);
  uncounted.board.threads[0].first_operations[0].number = 0;
  CHECK_FALSE(all_have_come({uncounted, receives(1, 0, 1, 1)}));
}

TEST_CASE("a rank is reported as slow only after a second of work") {
  std::vector<RankView> ranks(3);
  for (int i = 0; i < 3; ++i) ranks[static_cast<std::size_t>(i)].board.rank = 4 + i;
  ranks[0].board.computed_ns = ranks[2].board.computed_ns = 600'000'000;
  ranks[1].board.computed_ns = 1'500'000'000;
  CHECK(describe_slowest(ranks) ==
        "hang: before that, the others waited for rank 5, which computed 2.5 times as long as "
        "they did\n");
  for (RankView& rank : ranks) rank.board.computed_ns = rank.board.computed_ns / 2;
  CHECK(describe_slowest(ranks).empty());
  CHECK(describe_slowest({}).empty());
}
