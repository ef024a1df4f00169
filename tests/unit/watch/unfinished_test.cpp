// Tests that count_traffic counts the operations, on all ranks, that were never waited for.
#include "01_send_recv/send_recv.hpp"
#include "tests/support/counted.hpp"
#include "tests/support/mpi_test.hpp"

#include <mpi.h>

#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a send or receive is unfinished until it has been waited for") {
  float out = 1;
  float in = 0;
  std::vector<MPI_Request> requests(2, MPI_REQUEST_NULL);
  const auto ranks = static_cast<std::uint64_t>(world().size());
  const auto start = [&] {
    MPI_Irecv(&in, 1, MPI_FLOAT, world().left(), 0, world().get(), &requests[0]);
    MPI_Isend(&out, 1, MPI_FLOAT, world().right(), 0, world().get(), &requests[1]);
  };
  const auto wait = [&] { MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE); };
  const Traffic left_open = counted(world(), start);
  CHECK(left_open.unfinished == 2 * ranks);
  CHECK(left_open.messages == ranks);
  CHECK(counted(world(), wait) == Traffic{});  // started before the count
  const Traffic whole = counted(world(), [&] {
    start();
    wait();
  });
  CHECK(whole.unfinished == 0);
  CHECK(whole.messages == ranks);
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
  CHECK(traffic.messages == 2 * static_cast<std::uint64_t>(world().size()));
}
