// Tests the hang report, made from the ranks' reports: what counts as a cycle and what does
// not.
#include "tests/support/mpi_test.hpp"
#include "tools/watch/hang_report.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace dist::watch;
using dist::test::contains;

namespace {

constexpr std::uint32_t kComm = 1;

Operation operation(OperationKind kind, Call call, int peer, int tag = 0) {
  return {kind, call, peer, tag, kComm, 1, 4096};
}

RankView in_call(int rank, Call call, std::vector<Operation> operations,
                 std::vector<ChannelView> channels = {}) {
  RankView view;
  view.rank = rank;
  view.channels = std::move(channels);
  CallView in;
  in.call = call;
  in.operations = std::move(operations);
  view.inside.push_back(in);
  return view;
}

}  // namespace

TEST_CASE("an exchange in progress is not a cycle") {
  // Both ranks have sent and have posted their receives, so neither waits for the other.
  const auto exchange = [](int rank, int peer) {
    return in_call(rank, Call::MPI_Sendrecv,
                   {operation(OperationKind::send, Call::MPI_Sendrecv, peer),
                    operation(OperationKind::receive, Call::MPI_Sendrecv, peer)},
                   {{peer, 0, kComm, 1, 1}});
  };
  std::vector<RankView> ranks_of_host{exchange(0, 1), exchange(1, 0)};
  CHECK_FALSE(contains(describe_hang(ranks_of_host), "cycle"));
  // Without the receives, each rank waits for the other.
  for (RankView& rank : ranks_of_host) rank.channels[0].receives = 0;
  const std::string report = describe_hang(ranks_of_host);
  CHECK(contains(report,
                 "hang: rank 0 in MPI_Sendrecv to 1 and from 1 (4 KiB, tag 0); rank 1 in "
                 "MPI_Sendrecv to 0 and from 0 (4 KiB, tag 0): cycle 0 -> 1 -> 0\n"));
}

TEST_CASE("a wait for a rank on a different host is reported, but not as a cycle") {
  const std::string report = describe_hang(
      {in_call(4, Call::MPI_Recv, {operation(OperationKind::receive, Call::MPI_Recv, 2, 7)})});
  CHECK(report == "hang: rank 4 in MPI_Recv from 2 (4 KiB, tag 7)\n");
}

TEST_CASE("a rank is reported as slow only after a second of work") {
  std::vector<RankView> ranks(3);
  for (int i = 0; i < 3; ++i) ranks[static_cast<std::size_t>(i)].rank = 4 + i;
  ranks[0].computed_s = ranks[2].computed_s = 0.6;
  ranks[1].computed_s = 1.5;
  CHECK(describe_slowest(ranks) ==
        "hang: before that, the others waited for rank 5, which computed 2.5 times as long as "
        "they did\n");
  for (RankView& rank : ranks) rank.computed_s /= 2;
  CHECK(describe_slowest(ranks).empty());
  CHECK(describe_slowest({}).empty());
}
