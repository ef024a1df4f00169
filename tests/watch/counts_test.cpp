// Tests what the watch counts, and that strict sends change nothing else. Unfinished are the
// operations, on all ranks, that were never waited for.
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "tests/support/tracer_data.hpp"
#include "tools/exercises/counted.hpp"

#include <mpi.h>

#include <cstdint>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// While this object lives, all sends are synchronous.
class Strict {
 public:
  Strict() { watch_table()->set_strict(true); }
  ~Strict() { watch_table()->set_strict(false); }
};

}  // namespace

TEST_CASE("a count includes neither earlier messages nor those sent to make the count") {
  std::vector<float> data(8);
  all_reduce<float>(world(), data, ReduceOp::sum, AllReduceAlgorithm::ring);
  CHECK(counted(world(), [] {}) == Traffic{});
  const Traffic barrier = counted(world(), [] { world().barrier(); });
  CHECK(barrier.messages_per_rank == 0);
  CHECK(barrier.rounds == 0);
  CHECK(barrier.collectives == 1);
}

TEST_CASE("a count with a subject leaves out messages in other scopes, and outside of scopes") {
  std::vector<float> data(8);
  const auto send = [&] { all_reduce<float>(world(), data, ReduceOp::sum); };
  const Traffic once = counted(world(), send);
  const auto body = [&] {
    send();
    const CallScope other("all_reduce", "finite gradients");
    send();
    const CallScope bucket("all_reduce", "bucket 3: 0.bias");
    const CallScope without_subject("ring");  // belongs to the one around it
    send();
  };
  CHECK(count_traffic(world(), body, "bucket ") == once);
  CHECK(counted(world(), body).bytes_per_rank == 3 * once.bytes_per_rank);
}

TEST_CASE("an exception ends a count, and counts cannot be nested") {
  CHECK_THROWS_AS(counted(world(), [] { throw Error("on purpose"); }), Error);
  CHECK_THROWS_AS(counted(world(), [] { counted(world(), [] {}); }), Error);
  CHECK(counted(world(), [] {}) == Traffic{});
  CHECK_FALSE(watch_table()->is_observing());
}

TEST_CASE("all ranks of a split communicator get the same count, in its own rank numbers") {
  // The odd and the even ranks form their own rings, in the opposite direction to the world's.
  const Communicator part = world().split(world().rank() % 2, -world().rank());
  std::vector<float> data(12);
  const Traffic traffic = counted(
      part, [&] { all_reduce<float>(part, data, ReduceOp::sum, AllReduceAlgorithm::ring); });
  const auto size = static_cast<std::uint64_t>(part.size());
  CHECK(traffic.messages_per_rank == 2 * (size - 1));
  CHECK(traffic.rounds == 2 * (size - 1));
  CHECK(traffic.peers == (size > 1 ? std::vector<int>{1} : std::vector<int>{}));
  CHECK(part.all_agree(traffic.messages_per_rank == 2 * (size - 1)));
}

TEST_CASE("a communicator is not taken for a freed one whose handle it has") {
  const int size = world().size();
  int every[] = {size}, open[] = {0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    // The freed one has all ranks in the opposite order.
    MPI_Comm freed = MPI_COMM_NULL, again = MPI_COMM_NULL;
    MPI_CHECK(MPI_Comm_split(world().get(), 0, -world().rank(), &freed));
    const MPI_Comm handle = freed;
    counted(world(), [&] { MPI_CHECK(MPI_Barrier(freed)); });
    MPI_CHECK(MPI_Comm_free(&freed));
    // The watch does not see this call, which makes a communicator like the world's.
    MPI_CHECK(MPI_Cart_create(world().get(), 1, every, open, /*reorder=*/0, &again));
    const Traffic traffic = counted(world(), [&] {
      int number = 0;
      const int right = (world().rank() + 1) % size, left = (world().rank() + size - 1) % size;
      MPI_CHECK(MPI_Sendrecv_replace(&number, 1, MPI_INT, right, 0, left, 0, again,
                                     MPI_STATUS_IGNORE));
    });
    const bool reused = again == handle;
    MPI_CHECK(MPI_Comm_free(&again));
    CHECK(traffic.peers == std::vector<int>{1 % size});
    if (all_ranks(reused)) return;
  }
  skip("this MPI gave no handle twice");
}

TEST_CASE("a non-blocking message counts as in progress from its start to its wait") {
  // Every rank sends right and left at the same time, so its two receives share one port.
  std::vector<float> out(4);
  std::vector<float> from_left(4);
  std::vector<float> from_right(4);
  if (world().size() < 3) return skip("needs 3 ranks");
  const Traffic traffic = counted(world(), [&] {
    std::vector<MPI_Request> requests(4);
    MPI_Irecv(from_left.data(), 4, MPI_FLOAT, world().left(), 0, world().get(), &requests[0]);
    MPI_Irecv(from_right.data(), 4, MPI_FLOAT, world().right(), 1, world().get(), &requests[1]);
    MPI_Isend(out.data(), 4, MPI_FLOAT, world().right(), 0, world().get(), &requests[2]);
    MPI_Isend(out.data(), 4, MPI_FLOAT, world().left(), 1, world().get(), &requests[3]);
    MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
  });
  CHECK(traffic.messages_per_rank == 2);
  CHECK(traffic.bytes_per_rank == 32);
  CHECK(traffic.rounds == 2);
  CHECK(traffic.peers == std::vector<int>{1, world().size() - 1});
}

TEST_CASE("messages that a rank starts at once are counted as sent one at a time") {
  std::vector<float> number(1);
  const Traffic traffic = counted(world(), [&] {
    if (world().rank() > 0) return recv<float>(world(), number, 0);
    std::vector<Request> sends;
    for (int rank = 1; rank < world().size(); ++rank) {
      sends.push_back(isend<float>(world(), number, rank));
    }
    for (Request& request : sends) request.wait();
  });
  CHECK(traffic.rounds == ranks() - 1);
}

TEST_CASE("a receive from any source is counted for its actual sender") {
  float number = 0;
  const Traffic traffic = counted(world(), [&] {
    if (world().rank() > 0) MPI_Send(&number, 1, MPI_FLOAT, 0, 5, world().get());
    for (int i = 1; i < world().size() && world().rank() == 0; ++i) {
      MPI_Recv(&number, 1, MPI_FLOAT, MPI_ANY_SOURCE, MPI_ANY_TAG, world().get(),
               MPI_STATUS_IGNORE);
    }
  });
  CHECK(traffic.rounds == ranks() - 1);
  CHECK(traffic.messages_per_rank == (ranks() > 1 ? 1 : 0));
  CHECK(traffic.peers.empty());
}

TEST_CASE("a send or receive is unfinished until it has been waited for") {
  float out = 1;
  float in = 0;
  std::vector<MPI_Request> requests(2, MPI_REQUEST_NULL);
  const auto start = [&] {
    MPI_Irecv(&in, 1, MPI_FLOAT, world().left(), 0, world().get(), &requests[0]);
    MPI_Isend(&out, 1, MPI_FLOAT, world().right(), 0, world().get(), &requests[1]);
  };
  const auto wait = [&] { MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE); };
  const Traffic left_open = counted(world(), start);
  CHECK(left_open.unfinished == 2 * ranks());
  CHECK(left_open.messages == ranks());
  CHECK(counted(world(), wait) == Traffic{});  // started before the count
  const Traffic whole = counted(world(), [&] {
    start();
    wait();
  });
  CHECK(whole.unfinished == 0);
  CHECK(whole.messages == ranks());
}

TEST_CASE("each of several sends with the same request is finished") {
  // Open MPI returns the same request for all sends that complete immediately.
  const float out = 1;
  std::vector<float> in(4);
  const Traffic traffic = counted(world(), [&] {
    std::vector<MPI_Request> requests(4, MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      MPI_Isend(&out, 1, MPI_FLOAT, world().right(), static_cast<int>(i), world().get(),
                &requests[i]);
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      recv<float>(world(), std::span(&in[i], 1), world().left(), static_cast<int>(i));
    }
    MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
  });
  CHECK(traffic.unfinished == 0);
}

TEST_CASE("blocking calls and successful tests leave nothing unfinished") {
  float out = 1;
  float in = 0;
  const Traffic traffic = counted(world(), [&] {
    send_recv<float>(world(), std::span<const float>(&out, 1), world().right(),
                     std::span(&in, 1), world().left());
    Request receive = irecv<float>(world(), std::span(&in, 1), world().left());
    Request sending = isend<float>(world(), std::span<const float>(&out, 1), world().right());
    while (!receive.is_done() || !sending.is_done()) {
    }
  });
  CHECK(traffic.unfinished == 0);
  CHECK(traffic.messages == 2 * ranks());
}

TEST_CASE("strict sends change neither results nor counts") {
  const Strict strict;
  for (const std::size_t count : tricky_sizes()) {
    for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
      if (algorithm == AllReduceAlgorithm::shared_memory) continue;  // sends nothing
      if (algorithm == AllReduceAlgorithm::hierarchical) continue;   // on one host the same
      if (algorithm == AllReduceAlgorithm::automatic) continue;      // picks one of the others
      std::vector<std::int32_t> data(count, 1 << (4 * (world().rank() % 7)));
      std::int32_t expected = 0;
      for (int rank = 0; rank < world().size(); ++rank) expected += 1 << (4 * (rank % 7));
      const Traffic traffic = counted(world(), [&, a = algorithm] {
        all_reduce<std::int32_t>(world(), data, ReduceOp::sum, a);
      });
      INFO(name << " " << count);
      CHECK(first_difference(data, std::vector<std::int32_t>(count, expected)) == "");
      if (name == "ring") CHECK(traffic.messages_per_rank == 2 * (ranks() - 1));
    }
    std::vector<float> data = my_numbers(count);
    broadcast<float>(world(), data, 0, BroadcastAlgorithm::pipeline);
    CHECK(all_from(data, 0));
  }
}

TEST_CASE("a strict MPI_Sendrecv returns the status of its receive") {
  const Strict strict;
  int out = 100 + world().rank();
  int in = -1;
  MPI_Status status{};
  MPI_Sendrecv(&out, 1, MPI_INT, world().right(), 9, &in, 1, MPI_INT, MPI_ANY_SOURCE,
               MPI_ANY_TAG, world().get(), &status);
  CHECK(in == 100 + world().left());
  CHECK(status.MPI_SOURCE == world().left());
  CHECK(status.MPI_TAG == 9);
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 1);
}

namespace {
std::vector<float> seen_at_sends;
}

TEST_CASE("a count names every message with its round, and its content can be seen") {
  const int rank = world().rank();
  const int size = world().size();
  std::vector<float> data{static_cast<float>(rank)};
  watch_table()->call_at_sends([](const void* sent, std::uint64_t bytes) {
    if (bytes == sizeof(float)) seen_at_sends.push_back(*static_cast<const float*>(sent));
  });
  const Traffic traffic = counted(world(), [&] {
    for (int step = 1; step < size; ++step) {
      std::vector<float> arrived(1);
      send_recv<float>(world(), data, world().right(), arrived, world().left());
      data = arrived;
    }
  });
  watch_table()->call_at_sends(nullptr);
  const auto steps = static_cast<std::uint64_t>(size - 1);
  REQUIRE(traffic.sent.size() == steps * static_cast<std::uint64_t>(size));
  std::vector<std::uint64_t> messages(static_cast<std::size_t>(size));  // of each rank so far
  for (const auto& [from, to, round] : traffic.sent) {
    CHECK(to == (from + 1) % size);
    CHECK(round == ++messages[static_cast<std::size_t>(from)]);
  }
  std::vector<float> passed_on;
  for (int step = 0; step < size - 1; ++step) {
    passed_on.push_back(static_cast<float>((rank - step + size) % size));
  }
  CHECK(seen_at_sends == passed_on);
}
