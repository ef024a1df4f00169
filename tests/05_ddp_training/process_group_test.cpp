// What travels along with an all-reduce of a process group.
#include "05_ddp_training/process_group/process_group.hpp"

#include "tests/support/mpi_test.hpp"

#include <array>
#include <cmath>

using namespace dist;
using namespace dist::test;

TEST_CASE("every process group averages the numbers that travel along, in double precision") {
  const Stream stream(Device{});
  const int size = world().size();
  for (const Backend backend : {Backend::ours, Backend::mpi}) {
    for (const bool overlap : {false, true}) {
      CAPTURE(to_string(backend), overlap);
      const auto group =
          make_process_group(backend, world(), Device{}, AllReduceAlgorithm::ring, overlap);
      // A float could not represent the rank in 2^40 + rank.
      std::array<double, 2> all{0x1p40 + world().rank(), world().rank() == 0 ? 1.0 : 0.0};
      const Tensor tensor({3}, Device{});
      tensor.span()[2] = 1;
      const auto work = group->all_reduce(tensor, ReduceOp::sum, stream, "", all);
      work->wait(stream);
      CHECK(tensor.span()[2] == static_cast<float>(size));
      CHECK(std::abs(all[0] - (0x1p40 + 0.5 * (size - 1))) <= 0x1p-12);
      CHECK(std::abs(all[1] - 1.0 / size) <= 1e-15);
    }
  }
}
