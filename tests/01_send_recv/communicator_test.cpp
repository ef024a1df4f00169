// A communicator: its ranks, its verdicts, and its parts.
#include "common/communicator.hpp"

#include "tests/support/mpi_test.hpp"

using namespace dist;
using namespace dist::test;

TEST_CASE("a communicator knows its rank, size and neighbours") {
  const Communicator& comm = world();
  CHECK(comm.right() == (comm.rank() + 1) % comm.size());
  CHECK((comm.left() + 1) % comm.size() == comm.rank());
  CHECK(comm.local_size() == comm.size());  // the tests run on one host
  CHECK(comm.local_rank() == comm.rank());
}

TEST_CASE("a verdict that is false on one rank is false on all") {
  CHECK(world().all_agree(true));
  for (int denier = 0; denier < world().size(); ++denier) {
    CHECK_FALSE(world().all_agree(world().rank() != denier));
  }
}

TEST_CASE("a split groups ranks by color and orders them by key") {
  const Communicator part = world().split(world().rank() % 2, -world().rank());
  const int same_parity = (world().size() + 1 - world().rank() % 2) / 2;
  CHECK(part.size() == same_parity);
  CHECK(part.rank() == same_parity - 1 - world().rank() / 2);
  CHECK(part.local_size() == world().local_size());  // the job's
  const Communicator host = part.split_by_host();
  CHECK(host.size() == part.size());
  CHECK(host.rank() == part.rank());
}
